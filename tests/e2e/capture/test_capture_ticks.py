"""SPEC 6.6: historical then incremental, a tick with nothing new, recovery after a crash, the LPA safeguard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from telegram_assistant.names import ALBUMS_PARSED, POSTS_DELETED, POSTS_PARSED, low_watermark, parse_hwm
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Ids
from tests.metrics import sample

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any
Machine = Any


def parsed(mode: str) -> float:
    return sample("posts_parsed_total", mode=mode)


# As if nothing had run since then.
STALE = "UPDATE channels SET last_parsed_at = :ago, last_post_at = :ago, last_success_at = :ago, refreshed = '{}'"


@pytest.mark.parametrize("ids", [Ids.SPARSE])
async def test_first_tick_is_historical_then_incremental(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 130)
    before = {mode: parsed(mode) for mode in ("historical", "incremental")}
    await store.watch(news)
    await capture.start()
    await store.captured(news)  # the first visit
    row = await store.until(lambda: store.row(news), "its row")
    assert row.last_parsed_at is not None
    assert parsed("historical") - before["historical"] == 130
    assert parsed("incremental") == before["incremental"]

    town.say(news, "And now this")
    await store.captured(news)  # the new post
    await store.until(lambda: parsed("incremental") - before["incremental"] == 1, "it is counted")
    assert parsed("historical") - before["historical"] == 130

    async def moved() -> bool:
        return bool((await store.row(news)).last_parsed_at > row.last_parsed_at)

    await store.until(moved, "last_parsed_at moves with it")
    assert await store.redis.get(low_watermark(news.id)) is not None
    assert await store.redis.get(parse_hwm(news.id)) is None


async def test_second_tick_with_no_new_posts_changes_nothing(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 30)
    town.album(news, 3, at=datetime.now(UTC) - timedelta(minutes=9))
    await store.watch(news)
    await capture.start(feature_predictive_polling_enabled=False)  # a tick is to visit it, whatever its rhythm is
    await store.captured(news)  # the first visit
    await store.ticks(2)  # the visit after the first one reads the recent window once more
    row = await store.row(news)
    counts = [parsed(mode) for mode in ("historical", "incremental")]
    runs = sample("parser_runs_total", mode="incremental", status="empty")

    async def state() -> list[Any]:
        events = [len(await store.events(event)) for event in (POSTS_PARSED, ALBUMS_PARSED, POSTS_DELETED)]
        posts = await store.rows("SELECT id, version, content_hash, edited_at, deleted_at FROM posts ORDER BY id")
        return [events, [tuple(post) for post in posts], (await store.ledger(news)).captured]

    before = await state()
    assert before[0] == [33, 1, 0]
    await store.ticks(3)
    assert sample("parser_runs_total", mode="incremental", status="empty") >= runs + 2, "it was visited"
    assert await state() == before
    assert (await store.row(news)).last_parsed_at == row.last_parsed_at
    assert [parsed(mode) for mode in ("historical", "incremental")] == counts


async def test_recovery_from_the_high_water_mark_after_a_crash(town: Town, store: Store, machine: Machine) -> None:
    long = town.open("long_history", 1200)
    stop_here = Fault("silence", "messages.getHistory", skip=7)  # the first request asks where 24 h ago was
    town.sim.faults.add(stop_here)
    await store.watch(long)
    first = await machine.start()
    await store.until(lambda: town.sim.faults.count(stop_here), "the page that never comes")

    async def marked() -> bool:
        """Pages are asked for ahead of the saves, so those of before may still be on their way into the database."""
        mark, cursor = await store.redis.get(parse_hwm(long.id)), (await store.row(long)).cursor_id
        return cursor >= 500 and mark is not None and datetime.fromisoformat(mark) == long.messages[cursor].date

    await store.until(marked, "the high-water mark")
    await first.kill()

    row = await store.row(long)
    mark = await store.redis.get(parse_hwm(long.id))
    assert mark is not None
    assert datetime.fromisoformat(mark) == long.messages[row.cursor_id].date
    assert 500 <= row.cursor_id < 1200
    assert row.last_parsed_at is None, "it moves only after success"
    assert len(await store.texts(long)) == row.cursor_id, "what was read before the crash is there"

    town.sim.faults.clear()
    town.sim.rpc_log.clear()
    await machine.start()
    await store.captured(long)
    offsets = first_run(town, long)
    assert offsets[0] >= row.cursor_id - 1, "pages below the mark are not read again"
    assert offsets[-1] > 1100, "it went on to the end"

    async def cleared() -> bool:
        return await store.redis.get(parse_hwm(long.id)) is None

    await store.until(cleared, "the mark is cleared after the success")
    assert (await store.row(long)).last_parsed_at is not None
    await store.published()
    events = await store.events(POSTS_PARSED)
    assert {event.telegram_message_id for event in events} == set(long.messages)


def first_run(town: Town, channel: Channel) -> list[int]:
    """Where the pages of one visit began; a later visit begins below the last of them again."""
    asked = [part for args in town.asked("messages.getHistory", channel) for part in args.split()]
    offsets = [int(part.partition("=")[2]) for part in asked if part.startswith("offset_id=")]
    falls = [1 + index for index, (one, other) in enumerate(pairwise(offsets)) if other < one]
    return offsets[: falls[0]] if falls else offsets


async def test_lpa_safeguard_forces_historical_and_loses_nothing(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 20)
    await store.watch(news)
    await capture.start()
    await store.captured(news)  # the first visit
    await capture.stop()
    # Three days pass, in which 250 posts are written and nobody reads.
    ago = datetime.now(UTC) - timedelta(hours=72)
    await store.change(STALE, ago=ago)
    await store.change("UPDATE posts SET posted_at = posted_at - interval '72 hours'")
    for index in range(250):
        town.say(news, at=ago + timedelta(minutes=17 * index))
    forced = sample("parser_mode_forced_total", reason="stale_lpa")
    before = parsed("historical")
    await capture.start()
    await store.captured(news)  # everything of the gap
    assert sample("parser_mode_forced_total", reason="stale_lpa") > forced
    await store.until(lambda: parsed("historical") - before == 250, "all are counted")

    async def fresh() -> bool:
        return bool((await store.row(news)).last_parsed_at > ago)

    await store.until(fresh, "last_parsed_at")


@pytest.mark.parametrize("ids", [Ids.SPARSE])
async def test_a_post_from_its_birth_to_its_deletion_and_over_a_restart(
    town: Town, store: Store, capture: Capture
) -> None:
    news = town.open("daily_news", 5)
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    post = town.say(news, "Fresh")
    await store.captured(news)
    town.world.edit(news, post.id, "Fresh, corrected")
    await store.captured(news)
    versions = await store.rows("SELECT v.text FROM post_versions v JOIN posts p ON p.id = v.post_id")
    assert [row.text for row in versions] == ["Fresh"]
    town.world.delete(news, [post.id])
    await store.captured(news)
    marked = await store.rows("SELECT message_id, text FROM posts WHERE deleted_at IS NOT NULL")
    assert [tuple(row) for row in marked] == [(post.id, "Fresh, corrected")]

    await capture.stop()
    again = town.say(news, "While nobody looked")
    _, second, third, *_ = news.messages
    town.world.edit(news, third, "Edited while nobody looked")
    town.world.delete(news, [second])
    await capture.start()
    await store.captured(news)
    await store.published()
    told = {(event.telegram_message_id, event.version) for event in await store.events(POSTS_PARSED)}
    assert {(post.id, 2), (again.id, 1), (third, 2)} <= told
    deleted = [event.post_id for event in await store.events(POSTS_DELETED)]
    gone = [row.id for row in await store.rows("SELECT id FROM posts WHERE deleted_at IS NOT NULL")]
    assert sorted(deleted) == sorted(gone), "each once"
