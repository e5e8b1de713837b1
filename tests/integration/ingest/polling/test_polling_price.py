"""What a request is worth: one budget for all processes, over restarts, within what the accounts may ask."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import event

from telegram_assistant.domain.polling import first_price
from telegram_assistant.ingest.polling import SHARE, Capacity, Polling, Price
from telegram_assistant.names import POLLING_LOOKS, POLLING_PRICE
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.sealed import Sealer

pytestmark = pytest.mark.integration

START = datetime(2026, 1, 14, 9, tzinfo=UTC)  # where the clock of the newsroom begins
FIXED = 300.0

# A class of conftest.py, which cannot be imported.
Newsroom = Any


async def test_the_budget_is_what_the_fixed_interval_would_use(newsroom: Newsroom) -> None:
    """Of channels that are watched: one that was given up or removed uses nothing."""
    for channel_id, status in enumerate(("active", "active", "active", "dead", "removed", "linked")):
        await newsroom.open(channel_id + 1, status=status, appetite=0.01)
    assert (await newsroom.polling().reprice()).per_hour == 3 * 12


async def test_no_channels_are_no_trouble(newsroom: Newsroom) -> None:
    price = await newsroom.polling().reprice()
    assert (price.price, price.per_hour) == (first_price(FIXED), 0)


async def test_several_processes_use_one_budget(newsroom: Newsroom) -> None:
    for channel_id in (1, 2):
        await newsroom.open(channel_id, newsroom.every(60, days=3))
    one, two = newsroom.polling(), newsroom.polling()
    fair = (await one.reprice()).price
    for number in range(240):  # a day's budget is 576
        await (one if number % 2 else two).count_look()
    newsroom.now += timedelta(minutes=5)
    dear = await two.reprice()
    assert dear.days == pytest.approx(1 / 288 - 240 / 576)
    assert dear.price > 2 * fair
    again = await one.reprice()
    assert (again.days, again.price) == (dear.days, dear.price), "the same looks are not counted twice"


async def test_the_price_survives_a_restart_and_another_holder_of_the_lock(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(10, days=3))
    first = newsroom.polling()
    await newsroom.visit(1, first)
    fair = (await first.reprice()).price
    for _ in range(200):
        await first.count_look()
    newsroom.now += timedelta(minutes=5)
    await newsroom.tick(first)
    raised = msgspec.json.decode(await newsroom.redis.get(POLLING_PRICE), type=Price)
    assert raised.price > 2 * fair
    newsroom.now += timedelta(minutes=5)
    second = newsroom.polling()
    await newsroom.visit(1, second)
    assert (await newsroom.row(1)).plan_price == raised.price
    after = await second.reprice()
    assert after.days == pytest.approx(2 / 288 - 201 / 288)


async def test_an_outage_is_no_reason_to_rush(newsroom: Newsroom) -> None:
    await newsroom.open(1, appetite=0.01)
    polling = newsroom.polling()
    fair = (await polling.reprice()).price
    newsroom.now += timedelta(days=30)
    assert fair / 3 < (await polling.reprice()).price < fair
    newsroom.now -= timedelta(days=40)  # and clocks are set
    assert (await polling.reprice()).days == 0.5


async def test_accounts_limit_the_budget(newsroom: Newsroom) -> None:
    accounts = TelegramAccounts(newsroom.database, Sealer("of this test"))
    capacity = Capacity(accounts, clock=newsroom.clock)
    assert await capacity() is None, "nobody can read, so there is nothing to limit"
    for user_id in (1, 2, 3):
        await accounts.add(telegram_user_id=user_id, name=f"account {user_id}", session="session")
    await newsroom.execute("UPDATE telegram_accounts SET created_at = :at", at=START - timedelta(days=9))
    assert await capacity() == pytest.approx(3 * SHARE * 3600)
    await newsroom.execute("UPDATE telegram_accounts SET status = 'banned' WHERE telegram_user_id = 1")
    await newsroom.execute("UPDATE telegram_accounts SET created_at = :at WHERE telegram_user_id = 2", at=START)
    assert await capacity() == pytest.approx(1.5 * SHARE * 3600), "a new account is half as fast"
    (fresh,) = [account for account in await accounts.all() if account.telegram_user_id == 3]
    await accounts.remember_flood(fresh.id, "messages.getHistory", until=START + timedelta(hours=1), now=START)
    assert await capacity() == pytest.approx(0.5 * SHARE * 3600)
    await newsroom.execute(
        "INSERT INTO channels (id, title, appetite) SELECT n, 'c', 0.01 FROM generate_series(1, 500) AS n"
    )
    assert (await newsroom.polling(capacity=capacity).reprice()).per_hour == pytest.approx(0.5 * SHARE * 3600)
    assert (await newsroom.polling().reprice()).per_hour == 500 * 12


async def test_a_tick_takes_the_same_statements_for_any_number_of_channels(newsroom: Newsroom) -> None:
    accounts = TelegramAccounts(newsroom.database, Sealer("of this test"))
    polling = newsroom.polling(capacity=Capacity(accounts, clock=newsroom.clock))
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    counts = []
    for count in (3, 300):
        await newsroom.execute("DELETE FROM channels")
        await newsroom.execute(
            "INSERT INTO channels (id, title, appetite, last_post_at) SELECT n, 'c', 0.01, :at"
            " FROM generate_series(1, :count) AS n",
            at=START,
            count=count,
        )
        event.listen(newsroom.database.sync_engine, "before_cursor_execute", note)
        await newsroom.tick(polling)
        event.remove(newsroom.database.sync_engine, "before_cursor_execute", note)
        counts.append(len(statements))
        statements.clear()
    assert counts[0] == counts[1] <= 8


async def run_for(newsroom: Newsroom, polling: Polling, hours: float, arrivals: Sequence[tuple[datetime, int]]) -> Any:
    """Ticks, visits and posts in the order of time; how often each channel was visited, and how long posts waited."""
    end, waiting, tick_at = newsroom.now + timedelta(hours=hours), list(arrivals), newsroom.now
    visits: dict[int, int] = {}
    delays: list[float] = []
    while newsroom.now < end:
        if newsroom.now >= tick_at:
            await newsroom.tick(polling)
            tick_at += timedelta(seconds=FIXED)
        for channel in await newsroom.channels.lease("process-1", limit=9, now=newsroom.now, ttl=timedelta(minutes=5)):
            found = [at for at, channel_id in waiting if channel_id == channel.id and at <= newsroom.now]
            waiting = [pair for pair in waiting if pair[1] != channel.id or pair[0] > newsroom.now]
            delays += [(newsroom.now - at).total_seconds() for at in found]
            await newsroom.say(channel.id, *found)
            await newsroom.visit(channel.id, polling)
            visits[channel.id] = visits.get(channel.id, 0) + 1
        following = (await newsroom.execute("SELECT min(next_visit_at) FROM channels")).scalar()
        newsroom.now = min(tick_at, max(following, newsroom.now + timedelta(seconds=1)))
    return visits, delays


async def test_at_the_price_of_the_fixed_interval_posts_wait_less(newsroom: Newsroom) -> None:
    """The whole of it for eight hours: as many looks, fairly shared, and a shorter delay than half an interval."""
    rng = random.Random(11)
    minutes = {1: 4.0, 2: 30.0, 3: 240.0, 4: 1440.0}
    arrivals = []
    for channel_id, apart in minutes.items():
        await newsroom.open(channel_id, newsroom.every(apart, days=15))
        at = START
        while (at := at + timedelta(minutes=rng.expovariate(1 / apart))) < START + timedelta(hours=8):
            arrivals.append((at, channel_id))
    visits, delays = await run_for(newsroom, newsroom.polling(), 8, arrivals)
    assert sum(visits.values()) == pytest.approx(4 * 8 * 12, rel=0.15)
    assert visits[1] > 1.5 * visits[2] > 1.5 * visits[3] >= visits[4] >= 7
    assert sum(delays) / len(delays) < 0.75 * FIXED / 2


async def test_n27_a_look_that_cost_two_requests_counts_as_two(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(60, days=3))
    polling = newsroom.polling()
    await polling.reprice()
    before = int(await newsroom.redis.get(POLLING_LOOKS) or 0)
    await polling.plan(1, newsroom.now, requests=2)
    assert int(await newsroom.redis.get(POLLING_LOOKS)) == before + 2
