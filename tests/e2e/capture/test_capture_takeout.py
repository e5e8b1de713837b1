"""Large histories in a takeout session, through the processes that people run: delayed, restarted, used, finished."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Machine = Any

READER = 1001
POSTS, AT_LEAST = 900, 300
INIT, IN_TAKEOUT = "account.initTakeoutSession", "invokeWithTakeout(messages.getHistory)"


async def fetch(town: Town, store: Store, name: str) -> Any:
    """A channel whose whole history is asked for after its first visit; it is read to the end."""
    channel = town.open(name, POSTS, over=timedelta(days=40))
    await store.watch(channel)

    async def visited() -> bool:
        row = await store.row(channel)
        return row is not None and row.last_success_at is not None

    await store.until(visited, f"{name} was visited")
    await store.change("UPDATE channels SET requested_from = 1 WHERE id = :id", id=channel.id)
    await store.captured(channel)
    assert len(await store.rows("SELECT 1 FROM posts WHERE channel_id = :id", id=channel.id)) == POSTS, "none doubled"
    return channel


async def test_a_large_history_waits_for_its_takeout_and_nothing_is_lost(
    town: Town, store: Store, machine: Machine
) -> None:
    def asked(method: str) -> int:
        return sum(call.method == method for call in town.sim.rpc_log)

    town.sim.takeouts.delay = 86_400
    ingest = await machine.start(telegram_takeout_min_messages=AT_LEAST)
    first = await fetch(town, store, "first")
    assert (asked(INIT), asked(IN_TAKEOUT)) == (1, 0), "the usual way, while Telegram makes it wait"
    takeouts = (await ingest.details())["takeouts"]
    assert (takeouts["status"], takeouts["error"]) == ("ok", None)
    assert "until then they are read the usual way" in takeouts["note"]
    assert "takeout until" in " ".join((await machine.tga("accounts", "list")).split())

    await ingest.kill()
    await store.change("DELETE FROM posts WHERE channel_id = :id", id=first.id)  # as if it had not been read yet
    await store.change("UPDATE channels SET coverage = '{}', captured = 0 WHERE id = :id", id=first.id)
    listed = json.loads(await machine.tga("channels", "list", "--json", telegram_takeout_min_messages=AT_LEAST))
    assert listed["channels"][0]["takeout"].startswith("takeout from ")
    ingest = await machine.start(telegram_takeout_min_messages=AT_LEAST)
    await store.captured(first)
    assert (asked(INIT), asked(IN_TAKEOUT)) == (1, 0), "a restart knows of the wait"

    town.sim.allow_takeout(READER)
    (account,) = await store.rows("SELECT CAST(id AS text) AS id FROM telegram_accounts")
    await machine.tga("accounts", "takeout", account.id)
    channel = await fetch(town, store, "second")
    assert asked(INIT) == 2
    assert len(town.asked(IN_TAKEOUT, channel)) >= POSTS // 100 - 1
    await store.until(lambda: not town.sim.takeouts.open, "it is finished")

    async def nothing_to_say() -> bool:
        return (await ingest.details())["takeouts"]["note"] is None

    await store.until(nothing_to_say, "health has nothing to say of it any more")
