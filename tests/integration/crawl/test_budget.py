"""Budgets are shared by all workers, exact under races, and closed when nobody can count."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.crawl.budget import BudgetLimits, CrawlBudget
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.stores.postgres.budgets import Budgets
from telegram_assistant.stores.redis import open_redis

pytestmark = pytest.mark.integration

TENANT = UUID(int=7)
Make = Callable[..., CrawlBudget]


class Waiter:
    """A sleep that only remembers."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)


@pytest.fixture
def waiter() -> Waiter:
    return Waiter()


@pytest.fixture
def clock(internet: Any) -> Any:
    return internet.clock


@pytest.fixture
def make(database: AsyncEngine, redis: Redis, clock: Any, waiter: Waiter) -> Make:
    def made(our_hosts: Collection[str] = (), **limits: Any) -> CrawlBudget:
        fast = {"pause_seconds": 0.0, **limits}
        made_of = BudgetLimits(**fast)
        return CrawlBudget(Budgets(database), redis, clock=clock, limits=made_of, our_hosts=our_hosts, sleep=waiter)

    return made


async def test_a_tenant_has_so_many_pages_a_day(make: Make, clock: Any) -> None:
    budget = make(per_tenant_day=3)
    for number in range(3):
        await budget.take([TENANT], f"http://site{number}.test/x")
    with pytest.raises(Retry, match="3 pages of today are used up") as retry:
        await budget.take([TENANT], "http://other.test/x")
    assert retry.value.after == 12 * 3600
    await budget.take([uuid4()], "http://other.test/x")
    assert await budget.used(TENANT) == 3
    clock.pass_by(hours=12)
    await budget.take([TENANT], "http://other.test/x")
    assert await budget.used(TENANT) == 1


async def test_a_site_is_asked_so_often_an_hour_by_all_together(make: Make, clock: Any) -> None:
    budget = make(per_site_hour=2)
    clock.pass_by(minutes=20)
    await budget.take([TENANT], "http://a.test/1")
    await budget.take([uuid4()], "http://www.a.test/2")
    with pytest.raises(Retry, match=r"a\.test was asked for 2 pages in this hour") as retry:
        await budget.take([TENANT], "http://news.a.test/3")
    assert retry.value.after == 40 * 60
    assert await budget.used(TENANT) == 1, "what was not given is not paid for"
    await budget.take([TENANT], "http://b.test/1")
    clock.pass_by(minutes=40)
    await budget.take([TENANT], "http://a.test/3")


async def test_n18_an_emptied_redis_gives_no_new_pages(make: Make, redis: Redis) -> None:
    budget = make(per_tenant_day=2, per_site_hour=2)
    await budget.take([TENANT], "http://a.test/1")
    await budget.take([TENANT], "http://a.test/2")
    await redis.flushall()
    for url, payer in (("http://b.test/x", TENANT), ("http://a.test/3", uuid4())):
        with pytest.raises(Retry, match=r"used up|was asked for 2"):
            await budget.take([payer], url)


async def test_n18_who_has_the_most_left_pays_and_noise_of_one_leaves_the_other_whole(make: Make) -> None:
    budget, noisy, quiet = make(per_tenant_day=4), uuid4(), uuid4()
    for number in range(3):
        await budget.take([noisy], f"http://noise{number}.test/")
    assert await budget.used(quiet) == 0
    for number in range(5):
        await budget.take([noisy, quiet], f"http://shared{number}.test/")
    assert [await budget.used(one) for one in (noisy, quiet)] == [4, 4]
    with pytest.raises(Retry, match="used up"):
        await budget.take([noisy, quiet], "http://shared.test/")


async def test_the_limits_of_the_contract_are_the_defaults() -> None:
    assert (BudgetLimits().per_tenant_day, BudgetLimits().per_site_hour) == (300, 60)


async def test_races_do_not_overspend(make: Make, database: AsyncEngine, engines: Any, clock: Any) -> None:
    """Several workers with connections of their own."""
    clients = [open_redis(engines.redis) for _ in range(4)]
    limits = BudgetLimits(per_tenant_day=50, per_site_hour=1000, pause_seconds=0)
    budgets = [CrawlBudget(Budgets(database), client, clock=clock, limits=limits) for client in clients]
    outcomes = await asyncio.gather(
        *(budgets[number % 4].take([TENANT], "http://a.test/x") for number in range(200)), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 50
    assert sum(isinstance(outcome, Retry) for outcome in outcomes) == 150
    assert await make().used(TENANT) == 50
    for client in clients:
        await client.aclose()


async def test_visits_of_a_host_take_turns(make: Make, waiter: Waiter, clock: Any) -> None:
    budget = make(pause_seconds=1.0, patience_seconds=2.0)
    for _ in range(3):
        await budget.take([TENANT], "http://a.test/x")
    assert waiter.waited == [1.0, 2.0]
    with pytest.raises(Retry, match="visited by others") as retry:
        await budget.take([TENANT], "http://a.test/x")
    assert retry.value.after == 3.0
    await budget.take([TENANT], "http://b.test/x")
    assert await budget.used(TENANT) == 4
    clock.pass_by(seconds=3)
    await budget.take([TENANT], "http://a.test/x")
    assert waiter.waited == [1.0, 2.0]


async def test_a_host_may_ask_for_a_longer_pause_within_bounds(make: Make, waiter: Waiter) -> None:
    budget = make(pause_seconds=1.0, longest_pause_seconds=30.0, patience_seconds=100.0)
    await budget.slow_down("slow.test", 10)
    await budget.slow_down("greedy.test", 9999)
    await budget.slow_down("quick.test", 0.01)
    for host in ("slow.test", "greedy.test", "quick.test"):
        await budget.take_host(host)
        await budget.take_host(host)
    assert waiter.waited == [10.0, 30.0, 1.0]


async def test_redirects_pay_for_the_site_but_not_for_the_tenant(make: Make) -> None:
    budget = make(per_site_hour=1, per_tenant_day=1)
    await budget.take([TENANT], "http://short.test/x")
    await budget.take_host("a.test")
    assert await budget.used(TENANT) == 1
    with pytest.raises(Retry, match=r"a\.test was asked"):
        await budget.take_host("a.test")


async def test_our_own_pages_are_counted_for_the_tenant_only(make: Make, waiter: Waiter) -> None:
    budget = make(our_hosts={"127.0.0.1"}, per_site_hour=1, pause_seconds=9.0, per_tenant_day=5)
    for _ in range(5):
        await budget.take([TENANT], "http://127.0.0.1:8099/page")
    assert waiter.waited == []
    with pytest.raises(Retry, match="used up"):
        await budget.take([TENANT], "http://127.0.0.1:8099/page")


async def test_keys_do_not_stay_for_ever(make: Make, redis: Redis) -> None:
    budget = make(pause_seconds=5.0)
    await budget.slow_down("a.test", 10)
    await budget.take([TENANT], "http://a.test/x")
    keys = [key async for key in redis.scan_iter("*")]
    assert len(keys) == 2
    assert [key for key in keys if await redis.ttl(key) <= 0] == []


async def test_without_redis_nothing_is_crawled(database: AsyncEngine, clock: Any) -> None:
    client = open_redis("redis://127.0.0.1:1/0")
    budget = CrawlBudget(Budgets(database), client, clock=clock)
    attempts: list[Awaitable[Any]] = [
        budget.take([TENANT], "http://a.test/x"),
        budget.take_host("a.test"),
        budget.slow_down("a.test", 9),
    ]
    for attempt in attempts:
        with pytest.raises(Retry, match="Redis does not answer") as retry:
            await attempt
        assert retry.value.after == 30
    await client.aclose()


async def test_a_bad_address_is_rejected(make: Make) -> None:
    with pytest.raises(Reject):
        await make().take([TENANT], "http://user@a.test/")
