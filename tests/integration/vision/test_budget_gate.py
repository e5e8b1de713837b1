"""The Budget Gate of vision (SPEC 8), counted in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.spend import DESCRIBE, FREE, SPREAD, ModelBudget, ModelLimits, Spending, paid_by
from telegram_assistant.domain.budgets import Claim, Kind, Standing, day_of
from telegram_assistant.domain.models import Identity
from telegram_assistant.errors import Fatal, Reject, Retry, Skip
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.stores.postgres.budgets import LEASE, Budgets, Held

pytestmark = pytest.mark.integration

TENANT, OTHER = uuid4(), uuid4()
PAINTER = Identity("remote", "painter")
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


class Gate:
    """The budget, asked about pictures."""

    def __init__(self, budget: ModelBudget, clock: Clock) -> None:
        self.budget = budget
        self._clock = clock

    @asynccontextmanager
    async def admit(self, tokens: int, tenant: UUID = TENANT) -> AsyncIterator[Spending]:
        with paid_by([tenant]):
            async with self.budget.paid(PAINTER, DESCRIBE, FREE, tokens) as spending:
                yield spending

    async def spent(self, tenant: UUID = TENANT) -> Standing:
        claim = Claim(owner=str(tenant), kind=Kind.VISION, period=day_of(self._clock()))
        return await self.budget.budgets.standing(claim, self._clock())

    async def spend(self, tokens: int, took: int, tenant: UUID = TENANT) -> None:
        async with self.admit(tokens, tenant) as spending:
            spending.add(took, 0)


Gates = Callable[..., Gate]


class Killed(Budgets):
    """Of a process that does not live to settle what it claimed."""

    async def settle(self, held: Held, took: int) -> dict[tuple[str, str], int]:
        raise ConnectionResetError(f"{took} for {held.id}")


@pytest.fixture
def gate(database: AsyncEngine, clock: Clock) -> Gates:
    def make(
        tokens: int = 10_000,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        budgets: type[Budgets] = Budgets,
        **more: float,
    ) -> Gate:
        limits = ModelLimits(vision_per_day=tokens, **more)  # type: ignore[arg-type]  # numbers
        waits = clock.sleep if sleep is None else sleep
        budget = ModelBudget(budgets(database), limits=limits, clock=clock, sleep=waits, chance=lambda: 0.5)
        return Gate(budget, clock)

    return make


async def test_a_call_is_reserved_and_then_charged_what_it_took(gate: Gates) -> None:
    one = gate()
    async with one.admit(2_000) as call:
        during = await one.spent()
        assert (during.spent, during.reserved, during.running) == (0, 2_000, 1)
        call.add(1_234, 0)
    after = await one.spent()
    assert (after.spent, after.reserved, after.running) == (1_234, 0, 0)
    assert REGISTRY.get_sample_value("vision_budget_spent_tokens", {"tenant": str(TENANT)}) == 1_234


async def test_over_the_budget_means_tomorrow(gate: Gates, clock: Clock) -> None:
    await gate().spend(2_000, 9_000)
    with pytest.raises(
        Retry, match=r"9000 of 10000, and this picture needs about 2000.* until 2026-01-06 00:00 UTC"
    ) as refused:
        await gate().spend(2_000, 2_000)
    assert refused.value.after == 2 * 3600 + 0.5 * SPREAD
    await gate().spend(1_000, 1_000)
    clock.now += timedelta(seconds=refused.value.after)
    assert (await gate().spent()).spent == 0
    await gate().spend(2_000, 2_000)


async def test_tenants_do_not_share(gate: Gates) -> None:
    await gate().spend(10_000, 10_000)
    await gate().spend(10_000, 10_000, OTHER)
    with pytest.raises(Retry):
        await gate().spend(1, 1)


async def test_at_most_three_at_once_in_all_processes(gate: Gates) -> None:
    gates = [gate(sleep=lambda _: asyncio.sleep(0.01), patience=1e9) for _ in range(2)]
    running, most, three = 0, 0, asyncio.Event()

    async def call(number: int) -> None:
        nonlocal running, most
        async with gates[number % 2].admit(100) as admitted:
            running += 1
            most = max(most, running)
            if running == 3:
                three.set()
            await asyncio.wait_for(three.wait(), 300)
            await asyncio.sleep(0.01)
            running -= 1
            admitted.add(70, 0)

    await asyncio.gather(*(call(number) for number in range(12)))
    assert most == 3
    spent = await gate().spent()
    assert (spent.spent, spent.reserved, spent.running) == (12 * 70, 0, 0)


async def test_the_last_tokens_are_given_once(gate: Gates) -> None:
    one = gate(tokens=5_000)

    async def call() -> str:
        try:
            await one.spend(2_000, 2_000)
        except Retry as refused:
            return "tomorrow" if "used up" in str(refused) else "busy"
        return "done"

    ends = await asyncio.gather(*(call() for _ in range(10)))
    assert sorted(ends) == ["done"] * 2 + ["tomorrow"] * 8
    assert (await one.spent()).spent == 4_000


async def test_who_finds_no_place_waits_and_then_comes_again(gate: Gates, clock: Clock) -> None:
    one = gate(patience=20.0)
    async with one.admit(10), one.admit(10), one.admit(10):
        with pytest.raises(Retry, match="3 calls of this kind are under way") as refused:
            await one.spend(10, 10)
        assert refused.value.after == 1.5
    assert timedelta(seconds=20) <= clock.now - EVENING < timedelta(seconds=22)
    await one.spend(10, 10)


async def test_reservations_alone_do_not_mean_tomorrow(gate: Gates) -> None:
    one = gate(tokens=3_000, patience=0.0)
    async with one.admit(2_000) as call:
        with pytest.raises(Retry, match="under way"):
            await one.spend(2_000, 2_000)
        call.add(500, 0)
    await one.spend(2_000, 2_000)


@pytest.mark.parametrize(
    "error,charged",
    [(Retry("away"), 0), (Skip("no picture"), 0), (Fatal("wrong key"), 0), (Reject("refused"), 0)],
)
async def test_what_was_not_answered_is_not_charged(gate: Gates, error: Exception, charged: int) -> None:
    with pytest.raises(type(error)):
        async with gate().admit(2_000):
            raise error
    spent = await gate().spent()
    assert (spent.spent, spent.running) == (charged, 0)


async def test_a_cancelled_call_is_charged_and_gives_its_place_back(gate: Gates) -> None:
    inside = asyncio.Event()

    async def call() -> None:
        async with gate().admit(2_000):
            inside.set()
            await asyncio.Event().wait()

    running = asyncio.ensure_future(call())
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    spent = await gate().spent()
    assert (spent.spent, spent.running) == (2_000, 0)


async def test_the_place_of_a_dead_process_comes_free_and_its_tokens_count(gate: Gates, clock: Clock) -> None:
    one = gate(patience=0.0)
    for _ in range(3):
        await gate(budgets=Killed).spend(1_000, 1_000)
    with pytest.raises(Retry):
        await one.spend(1_000, 1_000)
    clock.now += LEASE + timedelta(seconds=1)
    await one.spend(1_000, 900)
    spent = await one.spent()
    assert (spent.spent, spent.running) == (3_900, 0)


async def test_who_was_slower_than_its_time_is_charged_once(gate: Gates, clock: Clock) -> None:
    one = gate()
    async with one.admit(2_000) as call:
        clock.now += LEASE + timedelta(seconds=1)
        assert (await one.spent()).spent == 2_000
        call.add(1_500, 0)
    assert (await one.spent()).spent == 1_500


async def test_a_call_over_midnight_belongs_to_the_day_it_began(gate: Gates, clock: Clock) -> None:
    clock.now = datetime(2026, 1, 5, 23, 59, 58, tzinfo=UTC)
    one = gate()
    async with one.admit(2_000) as call:
        clock.now += timedelta(seconds=10)
        call.add(1_500, 0)
    assert (await one.spent()).spent == 0


async def test_n18_an_emptied_redis_gives_no_new_budget(gate: Gates, redis: Redis) -> None:
    await gate().spend(2_000, 9_000)
    await redis.flushall()
    with pytest.raises(Retry, match="9000 of 10000"):
        await gate().spend(2_000, 2_000)


async def test_old_sums_are_forgotten(gate: Gates, clock: Clock, database: AsyncEngine) -> None:
    await gate().spend(2_000, 2_000)
    clock.now += timedelta(days=4)
    await gate().spend(2_000, 2_000)
    async with database.connect() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM budget_spending"))).scalar_one() == 1
