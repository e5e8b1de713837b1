"""Live updates of joined channels: within seconds, without a tick; polling stays the proof."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from telegram_assistant.ingest.live import LANES
from telegram_assistant.names import POSTS_DELETED, POSTS_PARSED
from telegram_simulator.faults import Fault
from tests.metrics import sample

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

HOURLY = {"parser_scheduler_interval_sec": 3600}


async def test_posts_edits_and_deletions_arrive_without_a_tick(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 30, members={1001})
    await store.watch(news)
    await capture.start(**HOURLY)
    await store.captured(news)
    before = await store.row(news)
    count = sample("posts_parsed_total", mode="incremental")
    post = town.say(news, "Just now")
    await store.captured_text(news, post.id, "Just now")
    town.world.edit(news, 3, "Edited hours later")
    await store.captured_text(news, 3, "Edited hours later")
    town.world.delete(news, [4])
    await store.captured_text(news, 4, None)
    await store.until(lambda: sample("posts_parsed_total", mode="incremental") - count == 1, "it is counted")

    async def moved() -> bool:
        return bool((await store.row(news)).last_parsed_at > before.last_parsed_at)

    await store.until(moved, "a live post is parsed like any other")


async def test_a_channel_that_takes_long_to_save_keeps_no_other_waiting(
    town: Town, store: Store, capture: Capture
) -> None:
    news, sport = town.open("daily_news", 5, members={1001}), town.open("sport", 5, members={1001})
    assert news.id % LANES != sport.id % LANES
    await store.watch(news)
    await store.watch(sport)
    await capture.start(**HOURLY)
    await store.captured(news)
    await store.captured(sport)
    async with store.database.begin() as connection:
        await connection.execute(text("SELECT FROM channels WHERE id = :id FOR UPDATE"), {"id": news.id})
        waits = [town.say(news, f"Waits {number}") for number in range(3)]
        post = town.say(sport, "Does not")
        await store.captured_text(sport, post.id, "Does not")
        assert len(await store.texts(news)) == 5
    for post in waits:
        await store.captured_text(news, post.id, post.text)


async def test_what_was_missed_while_the_connection_was_lost_is_read_again(
    town: Town, store: Store, capture: Capture
) -> None:
    news = town.open("daily_news", 60, members={1001})
    await store.watch(news)
    await capture.start(**HOURLY)
    await store.captured(news)
    await town.sim.stop()
    town.say(news, "During the outage")
    town.world.edit(news, 5, "Edited during the outage, hours after it was posted")
    town.world.delete(news, [7])
    await town.sim.start()
    await store.captured(news)


async def test_a_push_that_never_comes_shows_by_its_number(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 10, members={1001})
    await store.watch(news)
    await capture.start(**HOURLY)
    await store.captured(news)
    post = town.say(news, "The first push: from now on numbers are known")
    await store.captured_text(news, post.id, post.text)
    town.sim.faults.add(Fault("push_lose", "push.*", times=2))
    town.say(news, "Its push is lost")
    town.world.edit(news, 2, "The push of this edit too")
    town.say(news, "After this one it is clear that something is missing")
    await store.captured(news)


async def test_deletions_follow_the_posts_on_the_streams_also_with_two_relays(
    town: Town, store: Store, machine: Any
) -> None:
    news = town.open("daily_news", 20, members={1001})
    await store.watch(news)
    await machine.start(hostname="one")
    await machine.start(hostname="two")
    await store.captured(news)
    for number in range(30):
        post = town.say(news, f"Short-lived {number}")
        await store.captured_text(news, post.id, post.text)
        town.world.delete(news, [post.id])
    await store.captured(news)
    await store.published()
    parsed = {event.post_id for event in await store.events(POSTS_PARSED)}
    deleted = [event.post_id for event in await store.events(POSTS_DELETED)]
    assert len(deleted) == len(set(deleted)) == 30
    assert set(deleted) <= parsed
