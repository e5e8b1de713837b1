"""A fault is charged to its owner: the engine, the account, the channel, and nobody beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from telegram_simulator.faults import Fault

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any
Machine = Any

DAY = 86_400


async def test_n4_a_redis_that_is_full_costs_no_channel_anything(town: Town, store: Store, capture: Capture) -> None:
    channels = [town.open(f"channel_{number}", 5) for number in range(3)]
    await store.watch(*channels)
    runtime = await capture.start()
    await store.captured(*channels)
    await store.redis.config_set("maxmemory-policy", "noeviction")
    await store.redis.config_set("maxmemory", "1")
    try:
        for channel in channels:
            town.say(channel, "said while Redis is full")
        await store.change("UPDATE channels SET next_visit_at = now()")
        visits = runtime.supervisor.tasks["visits"]
        await store.until(lambda: visits.restarts >= 4, "visits were tried again and again")
        details = await runtime.health.details()
        assert details["engines"]["redis"]["status"] == "down"
        assert "memory" in details["engines"]["redis"]["error"]
        rows = await store.rows("SELECT status, failures, last_error FROM channels")
        assert {tuple(row) for row in rows} == {("active", 0, None)}
    finally:
        await store.redis.config_set("maxmemory", "0")
    await store.until(lambda: _all(store, channels), "and goes on when there is room")
    rows = await store.rows("SELECT status, failures, leased_by FROM channels")
    assert {(row.status, row.failures) for row in rows} == {("active", 0)}


async def _all(store: Store, channels: list[Any]) -> bool:
    return all([await store.whole(channel) for channel in channels])


async def test_n7_a_channel_with_an_unknown_time_zone_harms_nobody_and_is_named(
    town: Town, store: Store, capture: Capture
) -> None:
    odd, other = town.open("odd_channel", 5), town.open("other_channel", 5)
    await store.watch(odd, other)
    runtime = await capture.start()
    await store.captured(odd, other)
    await store.change(
        "UPDATE channels SET timezone = 'Europe/Nowhere', refreshed = '{\"hour\": \"not a time\"}' WHERE id = :id",
        id=odd.id,
    )
    for channel in (odd, other):
        town.say(channel, "said after that")
    await store.captured(odd, other)
    await store.ticks(3)
    await store.until(lambda: _visited_again(store, odd), "it is visited on and on")
    tasks = runtime.supervisor.tasks
    assert (tasks["visits"].restarts, tasks["scheduler"].restarts) == (0, 0)
    (named,) = (await runtime.health.details())["rows"]["odd_rows"]
    assert named["channel"] == "@odd_channel"
    assert "Europe/Nowhere" in named["trouble"]
    assert f"/channels/{odd.id}" in named["trouble"], "and what to do"


async def _visited_again(store: Store, channel: Any) -> bool:
    before = (await store.row(channel)).last_success_at
    await store.ticks(1)
    row = await store.row(channel)
    return bool(row.last_success_at > before and row.failures == 0)


@pytest.mark.parametrize("method", ["channels.getMessages", "contacts.resolveUsername", "channels.getFullChannel"])
async def test_n3_a_flood_of_another_method_stops_no_capture(
    town: Town, store: Store, capture: Capture, method: str
) -> None:
    known, new = town.open("known_channel", 5), town.open("new_channel", 100, over=timedelta(days=9))
    await store.watch(known)
    runtime = await capture.start()
    await store.captured(known)
    if method != "contacts.resolveUsername":  # without a name there is no channel: then it waits, and health says so
        town.sim.faults.add(Fault("flood", method, seconds=DAY))
    await store.watch(new)
    await store.until(lambda: store.row(new), "the channel is there")
    town.sim.faults.add(Fault("flood", method, seconds=DAY))
    for channel in (known, new):
        town.say(channel, "said during the flood")
    await store.captured(known)
    await store.until(lambda: _heard(store, new), "the new one is read too")
    assert (await runtime.health.details())["accounts"]["error"] is None, "nothing waits for it"


async def _heard(store: Store, channel: Any) -> bool:
    return "said during the flood" in (await store.texts(channel)).values()


async def test_n3_what_waits_for_a_flood_is_told_with_account_method_and_time(
    town: Town, store: Store, capture: Capture
) -> None:
    town.sim.faults.add(Fault("flood", "contacts.resolveUsername", seconds=DAY))
    wanted = town.open("wanted_channel", 5)
    await store.watch(wanted)
    runtime = await capture.start()

    async def told() -> bool:
        accounts = (await runtime.health.details())["accounts"]
        return bool(accounts["status"] != "ok" and "contacts.resolveUsername" in accounts["error"])

    await store.until(told, "health says what waits")
    error = (await runtime.health.details())["accounts"]["error"]
    assert "Ann" in error
    assert "@wanted_channel" in error


async def test_n27_gaps_of_live_updates_and_albums_make_no_more_visits_than_the_budget_has(
    town: Town, store: Store, capture: Capture
) -> None:
    """Every second update is lost, as with a server that numbers them otherwise: each was a visit at once."""
    town.open("whose_id_is_also_a_limit")
    channels = [town.open(f"channel_{number}", 5, members={1001}) for number in range(3)]
    await store.watch(*channels)
    await capture.start(parser_scheduler_interval_sec=300)
    await store.captured(*channels)
    await asyncio.sleep(2)  # the looks after the start of the listener
    before = [len(town.asked("messages.getHistory", channel)) for channel in channels]
    for number in range(30):
        town.sim.faults.clear()
        if number % 2:
            town.sim.faults.add(Fault("push_lose", "push.new"))
        for channel in channels:
            town.say(channel, f"Number {number}")
        await asyncio.sleep(0.2)
    town.sim.faults.clear()
    for channel in channels:
        town.album(channel, 5)
    await asyncio.sleep(3)
    made = [
        len(town.asked("messages.getHistory", channel)) - was for channel, was in zip(channels, before, strict=True)
    ]
    assert max(made) <= 8, "a look for the first gap, one for the album, each of two requests at most"


async def test_n8_the_second_of_two_processes_takes_the_engines_over_with_the_channels(
    town: Town, machine: Machine
) -> None:
    """On one machine, with engines of ours: they end with the process that ran them, and the other brings them back."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        del machine.environment[name]
    channel = town.open("daily_news", 20)
    one = await machine.start(hostname="one")
    await machine.tga("channels", "add", "@daily_news")
    two = await machine.start(hostname="two", telegram_server=town.sim.address_at("127.0.0.2"))
    await until(lambda: captured(machine, 20), "all is captured")
    await one.kill()
    town.say(channel, "said after the end of the first")
    await until(lambda: captured(machine, 21), "the other goes on, with the engines in its hands")

    async def well() -> bool:
        return bool((await two.get("/health")).status_code == 200)

    await until(well, "and is well")
    assert town.sim.duplicated == []
    assert await two.stop() == 0
    await machine.start(hostname="three")
    await until(lambda: captured(machine, 21), "nothing was lost on the way")


async def captured(machine: Machine, posts: int) -> bool:
    """Commands find no engines while these change hands: then it is not known yet."""
    try:
        found = await machine.json("channels", "list")
    except AssertionError:
        return False
    return bool(found["channels"] and found["channels"][0]["captured"] == posts)


async def until(true: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(600):
        if await true():
            return
        await asyncio.sleep(0.5)
    raise AssertionError(what)
