"""Polling that learns, in the whole of capture: plans that are kept between ticks, and `tga channels explain`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.names import POLLING_LOOKS
from telegram_simulator.faults import Fault

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any
Machine = Any

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


async def planned(store: Store, channel: Any, since: datetime = LONG_AGO) -> Any:
    """The row of a channel that was visited since then."""
    (row,) = await store.rows("SELECT * FROM channels WHERE id = :id", id=channel.id) or [None]
    return row if row and row.last_success_at and row.last_success_at >= since else None


async def test_a_visit_is_made_when_its_time_has_come_and_not_with_a_tick(
    town: Town, store: Store, capture: Capture
) -> None:
    news = town.open("daily_news", 40)
    await store.watch(news)
    await capture.start(parser_scheduler_interval_sec=1800)
    row = await store.until(lambda: planned(store, news), "the first visit")
    assert row.next_visit_at == row.planned_at == row.last_success_at + timedelta(minutes=30)
    assert row.rhythm["posts"] == 39
    await store.captured(news)
    town.say(news, "Nobody would come for half an hour")
    soon = datetime.now(UTC) + timedelta(seconds=1)
    await store.change("UPDATE channels SET next_visit_at = :at, planned_at = :at", at=soon)
    learned = await store.until(lambda: planned(store, news, soon), "the visit of then")
    assert await store.whole(news)
    assert learned.next_visit_at == learned.planned_at > learned.last_success_at
    assert learned.plan_price > 0
    assert learned.rhythm["posts"] == 40


async def test_without_the_feature_a_channel_waits_for_the_tick(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 5)
    await store.watch(news)
    await capture.start(parser_scheduler_interval_sec=1800, feature_predictive_polling_enabled=False)
    row = await store.until(lambda: planned(store, news), "the first visit")
    assert (row.next_visit_at, row.planned_at, row.rhythm) == (None, None, None)


async def test_explain_says_why_then(town: Town, store: Store, machine: Machine) -> None:
    news, sport = town.open("daily_news", 60), town.open("sport_today", 5)
    await store.watch(news, sport)
    town.sim.faults.add(Fault("error", "messages.getHistory", channel="sport_today", code=400, message="CHAT_INVALID"))
    settings = {"parser_scheduler_interval_sec": 600}
    await machine.start(**settings, parser_retry_max=0)
    await store.until(lambda: planned(store, news), "the first visit")
    first = await machine.tga("channels", "explain", "@daily_news", **settings)
    assert "the next look is 10 min later, at " in first
    assert "MSK: too little is known of it, so about every 10 min." in first

    await store.change("UPDATE channels SET timezone = 'Asia/Tokyo', priority = 10 WHERE id = :id", id=news.id)
    assert "visited" in await machine.tga("parse", "@daily_news")
    told = json.loads(await machine.tga("channels", "explain", "daily_news", "--json", **settings))
    row = await planned(store, news)
    assert told["channel"] == "@daily_news"
    assert datetime.fromisoformat(told["next_visit_at"]) == row.planned_at
    assert datetime.fromisoformat(told["details"]["at"]) == row.planned_at
    assert (told["details"]["reason"], told["details"]["weight"]) == ("price", 4)
    assert told["details"]["price"] == pytest.approx(row.plan_price / 4)
    assert f"{row.planned_at + timedelta(hours=9):%H:%M:%S} JST" in told["sentences"][0]
    assert any("posts a day" in sentence for sentence in told["sentences"])

    async def failed() -> bool:
        return bool((await store.row(sport)).failures)

    await store.until(failed, "the other one fails")
    assert "CHAT_INVALID" in await machine.tga("channels", "explain", "@sport_today")
    off = await machine.tga("channels", "explain", "daily_news", feature_predictive_polling_enabled=False)
    assert "FEATURE_PREDICTIVE_POLLING_ENABLED is off" in off
    assert "@who_is_that is not watched" in await machine.tga("channels", "explain", "@who_is_that", code=1)
    await machine.tga("channels", "remove", "@daily_news")
    gone = await machine.tga("channels", "explain", "@daily_news", code=1)
    assert "not watched any more: tga channels revive @daily_news" in gone


@pytest.mark.parametrize("pages,requests", [("cut", 2), ("padded", 1)])
async def test_n22_a_look_that_finds_nothing_is_counted_as_what_it_asked(
    town: Town, store: Store, capture: Capture, pages: str, requests: int
) -> None:
    """Where Telegram shows the message before the page, one request tells that nothing is new."""
    town.sim.pages = pages
    news = town.open("daily_news", 40, over=timedelta(days=3))
    await store.watch(news)
    await capture.start(parser_scheduler_interval_sec=1800)
    row = await store.until(lambda: planned(store, news), "the first visit")
    asked, counted = len(town.asked("messages.getHistory", news)), int(await store.redis.get(POLLING_LOOKS))
    await store.change("UPDATE channels SET next_visit_at = now()")
    await store.until(lambda: planned(store, news, row.last_success_at + timedelta(microseconds=1)), "the next visit")
    assert len(town.asked("messages.getHistory", news)) - asked == requests
    assert int(await store.redis.get(POLLING_LOOKS)) - counted == requests
