"""The Budget Gate on a real Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis

from telegram_assistant.ai.budget import AWAY, LEASE, SPREAD, BudgetGate, running_key
from telegram_assistant.errors import Fatal, Reject, Retry, Skip
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.stores.redis import open_redis

pytestmark = pytest.mark.integration

TENANT, OTHER = uuid4(), uuid4()
EVENING = datetime(2026, 1, 5, 22, 0, tzinfo=UTC)


class Clock:
    """A clock that tests, and sleeps, move."""

    def __init__(self) -> None:
        self.now = EVENING

    def __call__(self) -> datetime:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


Gates = Callable[..., BudgetGate]


@pytest.fixture
def gate(redis: Redis, clock: Clock) -> Gates:
    def make(
        tokens: int = 10_000, sleep: Callable[[float], Awaitable[None]] | None = None, **more: float
    ) -> BudgetGate:
        waits = clock.sleep if sleep is None else sleep
        return BudgetGate(redis, tokens_per_day=tokens, clock=clock, sleep=waits, chance=lambda: 0.5, **more)  # type: ignore[arg-type]  # numbers

    return make


async def spend(gate: BudgetGate, tokens: int, took: int | None = None, tenant: UUID = TENANT) -> None:
    async with gate.admit(tenant, tokens) as call:
        if took is not None:
            call.used(took)


async def test_a_call_is_reserved_and_then_charged_what_it_took(gate: Gates) -> None:
    one = gate()
    async with one.admit(TENANT, 2_000) as call:
        during = await one.spent(TENANT)
        assert (during.tokens, during.reserved, during.running, during.left) == (0, 2_000, 1, 8_000)
        call.used(1_234)
    after = await one.spent(TENANT)
    assert (after.tokens, after.reserved, after.running, after.left) == (1_234, 0, 0, 8_766)
    assert after.resets_at == datetime(2026, 1, 6, tzinfo=UTC)
    assert REGISTRY.get_sample_value("vision_budget_spent_tokens", {"tenant": str(TENANT)}) == 1_234


async def test_a_call_that_does_not_say_is_charged_its_reservation(gate: Gates) -> None:
    await spend(gate(), 2_000)
    assert (await gate().spent(TENANT)).tokens == 2_000


async def test_over_the_budget_means_tomorrow(gate: Gates, clock: Clock) -> None:
    await spend(gate(), 2_000, took=9_000)
    with pytest.raises(Retry, match=r"9000 of 10000 tokens.*about 2000.* after 2026-01-06 00:00 UTC") as refused:
        await spend(gate(), 2_000)
    assert refused.value.after == 2 * 3600 + 0.5 * SPREAD
    await spend(gate(), 1_000, took=1_000)
    assert (await gate().spent(TENANT)).left == 0
    clock.now += timedelta(seconds=refused.value.after)
    assert (await gate().spent(TENANT)).tokens == 0
    await spend(gate(), 2_000, took=2_000)


async def test_tenants_do_not_share(gate: Gates) -> None:
    await spend(gate(), 10_000)
    await spend(gate(), 10_000, tenant=OTHER)
    with pytest.raises(Retry):
        await spend(gate(), 1)


async def test_what_costs_nothing_is_let_through_when_all_is_spent(gate: Gates) -> None:
    await spend(gate(), 10_000, took=12_000)
    await spend(gate(), 0, took=0)


async def test_at_most_three_at_once_in_all_processes(gate: Gates, redis_url: str, clock: Clock) -> None:
    clients = [open_redis(redis_url) for _ in range(2)]
    gates = [
        BudgetGate(client, clock=clock, sleep=lambda _: asyncio.sleep(0), patience=1e9, lease=1e9) for client in clients
    ]
    running, most = 0, 0

    async def call(number: int) -> None:
        nonlocal running, most
        async with gates[number % 2].admit(TENANT, 100) as admitted:
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            admitted.used(70)

    await asyncio.gather(*(call(number) for number in range(20)))
    assert most == 3
    spent = await gate().spent(TENANT)
    assert (spent.tokens, spent.reserved, spent.running) == (20 * 70, 0, 0)
    for client in clients:
        await client.aclose()


async def test_the_last_tokens_are_given_once(gate: Gates) -> None:
    one = gate(tokens=5_000)

    async def call() -> str:
        try:
            await spend(one, 2_000, took=2_000)
        except Retry as refused:
            return "tomorrow" if "used up" in str(refused) else "busy"
        return "done"

    ends = await asyncio.gather(*(call() for _ in range(10)))
    assert sorted(ends) == ["done"] * 2 + ["tomorrow"] * 8
    assert (await one.spent(TENANT)).tokens == 4_000


async def test_who_finds_no_place_waits_and_then_comes_again(gate: Gates, clock: Clock) -> None:
    one = gate(patience=20.0)
    async with one.admit(TENANT, 10), one.admit(TENANT, 10), one.admit(TENANT, 10):
        with pytest.raises(Retry, match="3 pictures of this tenant are being looked at") as refused:
            await spend(one, 10)
        assert refused.value.after == 1.5
    assert timedelta(seconds=20) <= clock.now - EVENING < timedelta(seconds=22)
    await spend(one, 10)


async def test_reservations_alone_do_not_mean_tomorrow(gate: Gates) -> None:
    one = gate(tokens=3_000, patience=0.0)
    async with one.admit(TENANT, 2_000) as call:
        with pytest.raises(Retry, match="being looked at"):
            await spend(one, 2_000)
        call.used(500)
    await spend(one, 2_000)


@pytest.mark.parametrize(
    "error,charged",
    [(Retry("away"), 0), (Skip("no picture"), 0), (Fatal("wrong key"), 0), (Reject("answer is none"), 2_000)],
)
async def test_what_was_not_answered_is_not_charged(gate: Gates, error: Exception, charged: int) -> None:
    with pytest.raises(type(error)):
        async with gate().admit(TENANT, 2_000):
            raise error
    spent = await gate().spent(TENANT)
    assert (spent.tokens, spent.running) == (charged, 0)


async def test_a_cancelled_call_is_charged_and_gives_its_place_back(gate: Gates) -> None:
    inside = asyncio.Event()

    async def call() -> None:
        async with gate().admit(TENANT, 2_000):
            inside.set()
            await asyncio.Event().wait()

    running = asyncio.ensure_future(call())
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    spent = await gate().spent(TENANT)
    assert (spent.tokens, spent.running) == (2_000, 0)


async def test_the_place_of_a_dead_process_comes_free_and_its_tokens_count(gate: Gates, clock: Clock) -> None:
    one = gate(patience=0.0)
    for _ in range(3):
        await one._enter(TENANT, 1_000)  # and never leaves: killed
    with pytest.raises(Retry):
        await spend(one, 1_000)
    clock.now += timedelta(seconds=LEASE + 1)
    await spend(one, 1_000, took=900)
    spent = await one.spent(TENANT)
    assert (spent.tokens, spent.running) == (3_900, 0)


async def test_who_was_slower_than_its_time_is_charged_once(gate: Gates, clock: Clock) -> None:
    one = gate()
    async with one.admit(TENANT, 2_000) as call:
        clock.now += timedelta(seconds=LEASE + 1)
        assert (await one.spent(TENANT)).tokens == 2_000
        call.used(1_500)
    assert (await one.spent(TENANT)).tokens == 1_500


async def test_a_call_over_midnight_belongs_to_the_day_it_began(gate: Gates, clock: Clock) -> None:
    clock.now = datetime(2026, 1, 5, 23, 59, 58, tzinfo=UTC)
    one = gate()
    async with one.admit(TENANT, 2_000) as call:
        clock.now += timedelta(seconds=10)
        call.used(1_500)
    assert (await one.spent(TENANT)).tokens == 0


async def test_without_redis_nobody_is_let_through(clock: Clock, redis_url: str) -> None:
    host, _, _ = redis_url.rpartition(":")
    gate = BudgetGate(open_redis(f"{host}:1/0"), clock=clock)
    with pytest.raises(Retry, match="cannot be asked, so no model is") as refused:
        await spend(gate, 10)
    assert refused.value.after == AWAY
    with pytest.raises(Retry):
        await gate.spent(TENANT)


async def test_an_answer_that_is_there_is_not_lost_with_redis(gate: Gates, redis: Redis) -> None:
    one = gate()
    async with one.admit(TENANT, 2_000) as call:
        await redis.set(running_key(TENANT), "not a set any more")  # the script will fail
        call.used(1_000)


async def test_nothing_is_kept_for_ever(gate: Gates, redis: Redis) -> None:
    await spend(gate(), 2_000)
    async with gate().admit(TENANT, 2_000):
        lives = [await redis.ttl(key) async for key in redis.scan_iter("vision:*")]
    assert len(lives) == 2
    assert all(0 < life <= 3 * 86_400 for life in lives)
