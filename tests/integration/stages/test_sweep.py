"""What is missing is a query (LESSONS 13): it is told of again, and nothing else is."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import pytest

from telegram_assistant.bus.letters import Step
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.post import Post
from telegram_assistant.names import (
    ALBUM_ASSEMBLED,
    ALBUMS_PARSED,
    INDEXING,
    MEDIA_SETTLED,
    POSTS_DELETED,
    POSTS_PARSED,
    POSTS_VISION_ANALYZED,
    TAGGING,
    VISION_ANALYSIS,
)
from telegram_assistant.runtime import utc_now
from telegram_assistant.stages.album_assembler import Albums, begin_albums, follow_items
from telegram_assistant.stages.album_summary import AlbumSummaries
from telegram_assistant.stages.indexing import Indexes, index_albums, index_seen
from telegram_assistant.stages.seen import SeenWords
from telegram_assistant.stages.sweep import LONG_AGO, Sweep
from tests.integration.stages.desk import FOOTBALL, WEATHER, Desk, analyzed, drawing, events_of, photo, post
from tests.integration.stages.loop import eventually, run_stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

LATER = timedelta(minutes=10)


async def passed(desk: Desk, one: Post, stage: str = INDEXING, outcome: str = "done", content_hash: str = "") -> None:
    step = Step(
        post_id=one.id,
        stage=stage,
        outcome=outcome,
        note="",
        trace_id="t",
        content_hash=content_hash or one.content_hash,
        duration_ms=1.0,
    )
    await desk.steps.record([step])


async def swept(desk: Desk, after: timedelta = LATER, since: datetime = LONG_AGO) -> tuple[set[UUID], set[UUID]]:
    """What is told of again: as parsed, and as deleted. What was told before is passed over."""
    await desk.told(POSTS_PARSED)
    await desk.told(POSTS_DELETED)
    await Sweep(desk.steps, lambda: True, lambda: utc_now() + after).step(since)
    parsed, deleted = await desk.told(POSTS_PARSED), await desk.told(POSTS_DELETED)
    assert len(parsed) == len({event.post_id for event in parsed})
    assert {event.trace_id for event in parsed}.isdisjoint({"t"})
    return {event.post_id for event in parsed}, {event.post_id for event in deleted}


async def test_an_unindexed_post_is_found_after_its_grace(desk: Desk) -> None:
    lost, indexed = post(1, WEATHER), post(2, WEATHER)
    await desk.save(lost, indexed)
    await passed(desk, indexed)
    assert await swept(desk, after=timedelta()) == (set(), set())
    assert await swept(desk) == ({lost.id}, set())
    assert await swept(desk) == ({lost.id}, set()), "as long as it is missing"
    await passed(desk, lost)
    assert await swept(desk) == (set(), set())


async def test_the_recent_days_and_the_whole_archive(desk: Desk) -> None:
    old, new = post(1), post(2)
    await desk.save(old, new)
    await desk.change("UPDATE posts SET captured_at = now() - interval '9 days' WHERE message_id = 1")
    assert await swept(desk, since=utc_now() - timedelta(days=2)) == ({new.id}, set())
    assert await swept(desk) == ({old.id, new.id}, set())


async def test_what_waits_or_is_dead_is_not_missing(desk: Desk) -> None:
    """G4: a dead letter is somebody's decision, and what waits comes by itself."""
    waiting, dead, edited = post(1, WEATHER), post(2, WEATHER), post(3, WEATHER)
    await desk.save(waiting, dead, edited)
    await passed(desk, waiting, TAGGING, "waiting")
    await passed(desk, dead, TAGGING, "dead")
    await passed(desk, edited, TAGGING, "dead")
    assert await swept(desk) == (set(), set())
    await desk.save(post(3, FOOTBALL))  # its new words are not dead
    assert await swept(desk) == ({edited.id}, set())


async def test_what_waits_for_days_waits_nowhere(desk: Desk) -> None:
    """G3: a Redis that lost what it had does not tell; nothing is put off for longer than to the next day."""
    one, budget, dead = post(1, WEATHER), post(2, WEATHER), post(3, WEATHER)
    await desk.save(one, budget, dead)
    for some, outcome in ((one, "waiting"), (budget, "waiting"), (dead, "dead")):
        await passed(desk, some, TAGGING, outcome)
    await desk.change("UPDATE post_steps SET at = now() - interval '3 days'")
    await passed(desk, budget, TAGGING, "waiting")  # tried again today
    assert await swept(desk) == ({one.id}, set())


async def test_an_edit_that_was_lost_is_found_after_its_own_grace(desk: Desk) -> None:
    """G5: the post is old, the edit is not."""
    one = post(1, WEATHER)
    await desk.save(one)
    await passed(desk, one)
    await desk.change("UPDATE posts SET captured_at = now() - interval '3 hours'")
    await desk.change("UPDATE post_steps SET at = now() - interval '3 hours'")
    await desk.save(post(1, FOOTBALL))
    assert await swept(desk, after=timedelta()) == (set(), set())
    assert await swept(desk) == ({one.id}, set())


async def test_a_skipped_step_is_no_entry_in_an_index(desk: Desk) -> None:
    one = post(1, WEATHER)
    await desk.save(one)
    await passed(desk, one, INDEXING, "skipped")
    assert await swept(desk) == ({one.id}, set())


async def test_an_unseen_picture_is_found_once_its_files_are_settled(desk: Desk) -> None:
    pending, unseen, waited, seen = photo(1), photo(2), photo(3), photo(4)
    await desk.save(pending, unseen, waited, seen)
    for one in (pending, unseen, waited, seen):
        await passed(desk, one)
    await passed(desk, pending, VISION_ANALYSIS, "skipped")
    await passed(desk, waited, VISION_ANALYSIS, "skipped")  # its file was still on its way then, and nobody came again
    await passed(desk, seen, VISION_ANALYSIS)
    await desk.store(unseen, drawing(1))
    await desk.fail(waited, "gone")
    await desk.store(seen, drawing(2))
    assert await swept(desk) == ({unseen.id, waited.id}, set())


async def test_a_deleted_post_that_the_indexes_still_have_is_found(desk: Desk) -> None:
    """G5."""
    kept, gone, never = post(1, WEATHER), post(2, WEATHER), post(3, WEATHER)
    await desk.save(kept, gone, never)
    await passed(desk, kept)
    await passed(desk, gone)
    for one in (kept, gone, never):
        await desk.delete(one)
    await passed(desk, gone)  # it was taken out
    assert await swept(desk, after=timedelta()) == (set(), set())
    assert await swept(desk) == (set(), {kept.id})


async def test_channels_that_nobody_watches_any_more_are_left_alone(desk: Desk) -> None:
    await desk.save(post(1, WEATHER))
    await desk.change("UPDATE channels SET status = 'removed'")
    assert await swept(desk) == (set(), set())


@pytest.mark.parametrize("idle", [True, False])
async def test_while_something_is_on_its_way_nothing_is_missing(desk: Desk, idle: bool) -> None:
    await desk.save(post(1, WEATHER))
    (first,) = await desk.told(POSTS_PARSED)
    looked = asyncio.Event()

    def is_idle() -> bool:
        looked.set()
        return idle

    supervisor = Supervisor()
    await supervisor.start("sweep", Sweep(desk.steps, is_idle, lambda: utc_now() + LATER).run)
    await asyncio.wait_for(looked.wait(), 20)
    if idle:
        await eventually(lambda: desk.rows("SELECT 1 FROM outbox"))
    await supervisor.stop()
    again = await desk.told(POSTS_PARSED)
    assert [event.post_id for event in again] == ([first.post_id] if idle else [])


async def test_what_is_held_back_in_the_outbox_is_not_missing(desk: Desk) -> None:
    """The stages are slow (backpressure): telling of it again would make it more."""
    await desk.save(post(1, WEATHER))
    assert not await desk.steps.unpublished(timedelta(minutes=1))
    await desk.change("UPDATE outbox SET created_at = now() - interval '2 minutes'")
    assert await desk.steps.unpublished(timedelta(minutes=1))
    await desk.told(POSTS_PARSED)
    assert not await desk.steps.unpublished(timedelta(minutes=1))


async def test_an_album_that_is_indexed_is_not_missing(desk: Desk, indexes: Indexes) -> None:
    """Its event names no content: the step is about the words that the post had when it was indexed."""
    items = [photo(1, "Альбом", grouped_id=900), photo(2, grouped_id=900)]
    await desk.save(*items, upto=2)
    for number, one in enumerate(items):
        await desk.store(one, drawing(number))
        await passed(desk, one, VISION_ANALYSIS)
    summaries = AlbumSummaries(desk.materials, desk.enrichments, SeenWords(desk.pictures))
    albums = Albums(desk.redis, summaries, utc_now)
    await begin_albums(await desk.told(ALBUMS_PARSED), albums=albums)
    seen = [analyzed(event, grouped_id=900) for event in await desk.told(MEDIA_SETTLED)]
    assembled = events_of(await follow_items(seen, albums=albums))
    await desk.publish(POSTS_VISION_ANALYZED, seen)
    await desk.publish(ALBUM_ASSEMBLED, assembled)
    handlers = {
        POSTS_VISION_ANALYZED: partial(index_seen, indexes=indexes),
        ALBUM_ASSEMBLED: partial(index_albums, indexes=indexes),
    }
    await run_stage(desk, INDEXING, handlers)
    steps = await desk.rows(
        "SELECT p.message_id, s.outcome, s.content_hash = p.content_hash AS current FROM post_steps s"
        " JOIN posts p ON p.id = s.post_id WHERE s.stage = 'indexing' ORDER BY p.message_id"
    )
    assert [tuple(row) for row in steps] == [(1, "done", True), (2, "done", True)]
    assert await swept(desk) == (set(), set())
