"""Roles give a sign in PostgreSQL, and those that remain tell of one that gives none any more (G9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant import health as module
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.health import Presence
from telegram_assistant.stores.postgres.upkeep import Upkeep

pytestmark = pytest.mark.integration


async def age(database: AsyncEngine, role: str, seconds: int) -> None:
    statement = text("UPDATE upkeep SET at = now() - make_interval(secs => :seconds) WHERE name = :name")
    async with database.begin() as connection:
        await connection.execute(statement, {"seconds": seconds, "name": f"role:{role}"})


def hours() -> Callable[[], float]:
    """A clock on which an hour has passed at every look."""
    return partial(next, count(0, 3600))


async def test_g9_a_role_that_ended_is_told_by_those_that_remain(database: AsyncEngine) -> None:
    upkeep = Upkeep(database)
    supervisor = Supervisor()
    worker = Presence(upkeep, ["worker"], ticks=hours())
    await supervisor.start("presence", worker.run)
    await upkeep.sign(["ingest"])
    assert (await worker.report())["status"] == "ok"
    await age(database, "ingest", 120)
    report = await worker.report()
    assert report["status"] == "degraded"
    assert "no `tga ingest` has given a sign for 2 min; nothing new is captured" in report["error"]
    await upkeep.sign(["ingest"])
    assert (await worker.report())["status"] == "ok"
    await supervisor.stop(["presence"])


async def test_a_role_that_was_given_up_is_not_missed_for_ever(database: AsyncEngine) -> None:
    upkeep = Upkeep(database)
    await upkeep.sign(["api", "worker"])
    worker = Presence(upkeep, ["worker"], ticks=hours())
    await age(database, "api", int(module.FORGOTTEN.total_seconds()) + 60)
    assert (await worker.report())["status"] == "ok"


async def test_who_just_started_waits_for_the_others(database: AsyncEngine) -> None:
    upkeep = Upkeep(database)
    await upkeep.sign(["ingest", "worker"])
    await age(database, "ingest", 3600)
    assert (await Presence(upkeep, ["worker"]).report())["status"] == "ok"
