"""Several `tga ingest` share the channels, and take over from one that died (SPEC 1.4, 1.7, 1.8)."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.names import POSTS_PARSED, SCHEDULER_LOCK
from telegram_simulator.faults import Fault

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Machine = Any
Program = Any

SLOW = Fault("slow", "messages.getHistory", seconds=0.2)


def ticks(program: Program) -> int:
    return sum("] tick " in line for line in program.log.read_text().splitlines())


async def holds(program: Program, count: int) -> bool:
    """Whether a process works with so many accounts."""
    return bool(await program.metric("telegram_accounts_held") == count)


async def test_n11_three_accounts_and_two_processes_and_telegram_never_sees_a_key_twice(
    town: Town, store: Store, machine: Machine
) -> None:
    await store.log_in(town.sim, *town.world.users)
    joined = [town.open(None, 20, private=True, members={user}, invite=f"come-in-{user}") for user in town.world.users]
    public = [town.open(f"channel_{number}", 60) for number in range(6)]
    one = await machine.start(hostname="one")
    two = await machine.start(hostname="two", telegram_server=town.sim.address_at("127.0.0.2"))
    await store.until(lambda: holds(one, 2), "the first gives one up")
    await store.until(lambda: holds(two, 1), "the second has it")
    await store.watch(*joined, *public)
    await store.captured(*joined, *public)

    await one.kill()
    for channel in (*joined, *public):
        town.say(channel, "said after the end of one")
    await store.until(lambda: holds(two, 3), "within a lease the accounts of the dead are the other's")
    await store.captured(*joined, *public)
    three = await machine.start(hostname="three", telegram_server=town.sim.address_at("127.0.0.3"))
    await store.until(lambda: holds(three, 1), "who comes gets a share")
    assert await two.stop() == 0
    await store.until(lambda: holds(three, 3), "who stops gives all back at once")
    for channel in (*joined, *public):
        town.say(channel, "said after the stop of two")
    await store.captured(*joined, *public)
    assert town.sim.duplicated == []
    assert {row.status for row in await store.rows("SELECT status FROM telegram_accounts")} == {"active"}


async def test_n11_a_process_without_an_account_stands_by_and_says_so(
    town: Town, store: Store, machine: Machine
) -> None:
    channel = town.open("channel", 30)
    one = await machine.start(hostname="one")
    two = await machine.start(hostname="two", telegram_server=town.sim.address_at("127.0.0.2"))
    await store.watch(channel)
    await store.captured(channel)
    assert (await two.get("/health")).status_code == 200
    accounts = (await two.details())["accounts"]
    assert (accounts["status"], accounts["error"]) == ("ok", None)
    assert "stands by" in accounts["note"]
    assert "one" in accounts["note"]
    assert [account["held_by"] for account in accounts["accounts"]] == ["one"]
    await one.kill()
    await store.until(lambda: holds(two, 1), "it takes over")
    assert (await two.details())["accounts"]["note"] is None
    town.say(channel, "still heard")
    await store.captured(channel)
    assert town.sim.duplicated == []


async def test_two_processes_share_the_channels_and_each_post_is_stored_once(
    town: Town, store: Store, machine: Machine
) -> None:
    channels = [town.open(f"channel_{number}", 150) for number in range(16)]
    town.sim.faults.add(SLOW)
    await store.log_in(town.sim, *town.world.users)
    one = await machine.start(hostname="one", parser_max_concurrency=2)
    two = await machine.start(
        hostname="two", parser_max_concurrency=2, telegram_server=town.sim.address_at("127.0.0.2")
    )
    await store.until(lambda: holds(two, 1), "the second has its share")
    await store.watch(*channels)
    await store.captured(*channels)
    shares = [await program.metric("posts_parsed_total") for program in (one, two)]
    assert min(shares) >= 150, "both worked"
    assert sum(shares) == 16 * 150, "and nobody did what the other had done"
    await store.published()
    keys = [event.idempotency_key for event in await store.events(POSTS_PARSED)]
    assert len(keys) == len(set(keys)) == 16 * 150


async def test_the_channels_of_a_process_that_was_killed_are_taken_over(
    town: Town, store: Store, machine: Machine
) -> None:
    channels = [town.open(f"channel_{number}", 250) for number in range(8)]
    town.sim.faults.add(SLOW)
    doomed = await machine.start(hostname="doomed")
    await machine.start(hostname="heir", telegram_server=town.sim.address_at("127.0.0.2"))
    await store.watch(*channels)

    async def held() -> list[Any]:
        found = await store.rows("SELECT leased_by FROM channels")
        return [row for row in found if row.leased_by == "doomed"] if len(found) == len(channels) else []

    await store.until(held, "it holds channels")
    await doomed.kill()
    orphans = await held()
    assert orphans, "it died with channels in its hands"
    await store.captured(*channels)
    assert await held() == []


async def test_spec_1_4_only_the_holder_of_the_lock_ticks_and_another_takes_over(
    town: Town, store: Store, machine: Machine
) -> None:
    one = await machine.start(hostname="one")
    await store.ticks(1)
    two = await machine.start(hostname="two", telegram_server=town.sim.address_at("127.0.0.2"))
    assert (await two.details())["scheduler"]["lock_owner"] == "one", "every process tells who ticks"
    await store.ticks(2)
    assert ticks(one) >= 3
    assert ticks(two) == 0
    await one.kill()

    async def another() -> bool:
        return bool(await store.redis.get(SCHEDULER_LOCK) == "two")

    await store.until(another, "the lock of the dead expires")
    await store.ticks(2)
    assert ticks(two) >= 2
    assert (await two.details())["scheduler"]["status"] == "ok"
    assert town.sim.unhandled == []


async def test_spec_1_4_a_lost_lock_is_noticed(store: Store, machine: Machine) -> None:
    program = await machine.start(hostname="one")
    await store.ticks(2)
    await store.redis.set(SCHEDULER_LOCK, "somebody", px=4000)

    async def lost() -> bool:
        return bool(await program.metric('scheduler_lock_acquired_total{status="lost"}') == 1)

    await store.until(lost, "it notices")
    before = ticks(program)
    assert await store.redis.get(SCHEDULER_LOCK) == "somebody", "it neither extends nor releases what is not its own"

    async def again() -> bool:
        return bool(await store.redis.get(SCHEDULER_LOCK) == "one")

    await store.until(again, "and takes it when it is free")
    assert ticks(program) <= before + 1, "meanwhile it did not tick"
    await store.redis.delete(SCHEDULER_LOCK)  # as a Redis does that restarts without its data
    await store.ticks(2)
    assert (await program.get("/health")).status_code == 200


async def test_spec_1_8_a_stop_hands_back_and_releases(town: Town, store: Store, machine: Machine) -> None:
    channels = [town.open(f"channel_{number}", 500) for number in range(4)]
    town.sim.faults.add(Fault("slow", "messages.getHistory", seconds=0.5))
    await store.watch(*channels)
    program = await machine.start(hostname="one", ingest_lease_sec=300)

    async def all_held() -> bool:
        return len(await store.rows("SELECT 1 FROM channels WHERE leased_by = 'one'")) == 4

    await store.until(all_held, "four visits under way")
    assert await program.stop() == 0
    rows = await store.rows("SELECT leased_by, leased_until, failures, next_visit_at <= now() AS due FROM channels")
    assert {tuple(row) for row in rows} == {(None, None, 0, True)}, "no lease to wait for, no failure, due at once"
    assert await store.redis.get(SCHEDULER_LOCK) is None
    assert "Traceback" not in program.log.read_text()

    town.sim.faults.clear()
    await machine.start(hostname="two", ingest_lease_sec=300)
    await store.captured(*channels)
