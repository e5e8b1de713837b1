"""The gauges about channels, between visits: what has grown old, who is there, and who is not any more."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.ingest.gauges import Gauges
from telegram_assistant.ingest.scheduler import Scheduler
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.names import SCHEDULER_LAST_TICK, parse_hwm
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.redis import time_to_text

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 7, 12, tzinfo=UTC)


async def add_channel(database: AsyncEngine, channel_id: int, status: str = "active") -> None:
    statement = text("INSERT INTO channels (id, title, status) VALUES (:id, :title, :status)")
    async with database.begin() as connection:
        await connection.execute(statement, {"id": channel_id, "title": f"channel {channel_id}", "status": status})


def shown(name: str, **labels: object) -> float | None:
    return REGISTRY.get_sample_value(name, {label: str(value) for label, value in labels.items()})


async def test_spec_2_2_the_age_of_a_mark_grows_while_nobody_parses(database: AsyncEngine, redis: Redis) -> None:
    """What the alert of SPEC 6.3 is about: a parse that was interrupted, and nobody went on."""
    await add_channel(database, 881)
    await redis.set(parse_hwm(881), time_to_text(NOW - timedelta(hours=20)))
    moment = NOW
    gauges = Gauges(Channels(database), redis, clock=lambda: moment)
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=881) == 20 * 3600
    moment = NOW + timedelta(hours=5)
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=881) == 25 * 3600
    await redis.delete(parse_hwm(881))
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=881) == 0


async def test_a_removed_channel_has_no_series_any_more(database: AsyncEngine, redis: Redis) -> None:
    for channel_id, status in ((882, "active"), (883, "dead")):
        await add_channel(database, channel_id, status)
    gauges = Gauges(Channels(database), redis, clock=lambda: NOW)
    await gauges.look()
    assert (shown("channels", status="active"), shown("channels", status="dead")) == (1, 1)
    assert shown("ledger_unknown_ids", channel_id=883) == 0
    async with database.begin() as connection:
        await connection.execute(text("UPDATE channels SET status = 'removed' WHERE id = 883"))
    await gauges.look()
    assert (shown("channels", status="active"), shown("channels", status="dead")) == (1, 0)
    assert shown("ledger_unknown_ids", channel_id=883) is None
    assert shown("ledger_unknown_ids", channel_id=882) == 0


async def test_spec_1_9_who_takes_over_shows_the_last_tick(database: AsyncEngine, redis: Redis) -> None:
    """Between a restart and the next tick freshness is told, and not since 1970."""
    ticked = NOW - timedelta(seconds=100)
    await redis.set(SCHEDULER_LAST_TICK, time_to_text(ticked))

    async def watch() -> int:
        raise AssertionError("it is not time for a tick")

    scheduler = Scheduler(
        Channels(database), redis, owner="new", interval=300, clock=lambda: NOW, due=asyncio.Event(), watch=watch
    )
    supervisor = Supervisor()
    task = await supervisor.start("scheduler", scheduler.run)
    for _ in range(3000):
        if task.last_progress is not None:
            break
        await asyncio.sleep(0.01)
    await supervisor.stop(["scheduler"])
    assert shown("scheduler_last_tick_ts_seconds") == ticked.timestamp()
    assert shown("scheduler_interval_seconds") == 300
