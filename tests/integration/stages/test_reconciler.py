"""PostgreSQL is the truth (G10): what is missing of a post is found and brought back, and nothing else is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.bus.consumer import Consumer, ConsumerTimes
from telegram_assistant.bus.retry_queue import replay
from telegram_assistant.bus.stage import Done, Outcome, Stage
from telegram_assistant.bus.streams import make_group
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import PostParsed, Step
from telegram_assistant.domain.post import Post
from telegram_assistant.domain.text import Link
from telegram_assistant.errors import Retry
from telegram_assistant.names import (
    ALBUM_ASSEMBLED,
    ALBUMS_PARSED,
    CRAWL_TRIGGER,
    ENRICHMENT,
    INDEXING,
    MEDIA_SETTLED,
    POSTS_DELETED,
    POSTS_PARSED,
    POSTS_VISION_ANALYZED,
    RETAGGING,
    TAGGING,
    VISION_ANALYSIS,
    album_state,
)
from telegram_assistant.stages import groups, reconciler
from telegram_assistant.stages.albums import Albums, AlbumSummaries, begin_albums, follow_items
from telegram_assistant.stages.indexing import Indexes, index_albums, index_seen
from telegram_assistant.stages.reconciler import Reconciler
from telegram_assistant.stages.tagging import TAGS
from telegram_assistant.stages.vision_analysis import VISION
from telegram_assistant.stores.postgres.enrichment import Enrichment
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import FOOTBALL, WEATHER, Desk, analyzed, drawing, events_of, photo, post
from tests.integration.stages.loop import eventually, run_stage
from tests.metrics import sample

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

GRACE = timedelta(minutes=5)
LATER = timedelta(minutes=10)
NOTHING: dict[str, set[UUID]] = {}


async def passed(desk: Desk, one: Post, stage: str = INDEXING, outcome: str = "done") -> None:
    step = Step(
        post_id=one.id,
        stage=stage,
        outcome=outcome,
        note="",
        trace_id="t",
        content_hash=one.content_hash,
        duration_ms=1.0,
    )
    await desk.steps.record([step])


async def tagged(desk: Desk, one: Post, *, rank: int = 0) -> None:
    await desk.enrichments.save(TAGS, [Enrichment(one.id, one.content_hash, {"tags": [], "rank": rank}, "test")])


async def whole(desk: Desk, *posts: Post) -> None:
    """Been through everything that has to do with words."""
    for one in posts:
        await tagged(desk, one)
        await passed(desk, one)


async def seen(desk: Desk, one: Post, *, pictures: int = 1, retagging: str = "skipped") -> None:
    found = [{"seen": number < pictures} for number in range(len(one.media))]
    await desk.enrichments.save(VISION, [Enrichment(one.id, one.content_hash, {"pictures": found}, VISION)])
    await passed(desk, one, VISION_ANALYSIS)
    await passed(desk, one, RETAGGING, retagging)


def made(desk: Desk, after: timedelta = LATER, pairs: Sequence[tuple[str, str]] = ()) -> Reconciler:
    return Reconciler(Upkeep(desk.database), desk.redis, pairs, grace=GRACE - after)


async def again(desk: Desk, after: timedelta = LATER, one: Reconciler | None = None) -> dict[str, set[UUID]]:
    """What is told of again, by its event. What was told before is passed over."""
    events = POSTS_PARSED, POSTS_DELETED, MEDIA_SETTLED, ALBUMS_PARSED
    for event in events:
        await desk.told(event)
    await desk.change("UPDATE upkeep SET at = to_timestamp(0)")
    await (one or made(desk, after)).look_at_archive()
    found: dict[str, set[UUID]] = {}
    for event in events:
        told: list[Any] = await desk.told(event)
        ids = [getattr(item, "album_id" if event == ALBUMS_PARSED else "post_id") for item in told]
        assert len(ids) == len(set(ids))
        assert {item.trace_id for item in told if event != MEDIA_SETTLED}.isdisjoint({"t"})
        if ids:
            found[event] = set(ids)
    return found


async def test_an_unindexed_post_is_found_after_its_grace(desk: Desk) -> None:
    lost, indexed = post(1, WEATHER), post(2, WEATHER)
    await desk.save(lost, indexed)
    await whole(desk, indexed)
    assert await again(desk, after=timedelta()) == NOTHING
    assert await again(desk) == {POSTS_PARSED: {lost.id}}
    assert await again(desk) == {POSTS_PARSED: {lost.id}}, "as long as it is missing"
    await whole(desk, lost)
    assert await again(desk) == NOTHING


async def test_what_was_told_of_again_has_its_time_too(desk: Desk) -> None:
    one = post(1, WEATHER)
    await desk.save(one)
    await desk.change("UPDATE posts SET captured_at = now() - interval '1 hour'")
    assert await again(desk, after=timedelta()) == {POSTS_PARSED: {one.id}}
    assert await again(desk, after=timedelta()) == NOTHING
    (step,) = await desk.steps.of_post(one.id)
    assert (step.stage, step.note) == ("reconciler", "told of again: untagged, unindexed")


async def test_what_is_still_on_its_way_is_not_missing(desk: Desk) -> None:
    """However long the way takes: a stage that is behind gets nothing on top of it."""
    one, older = post(2, WEATHER), post(1, WEATHER)
    await make_group(desk.redis, POSTS_PARSED, TAGGING)
    await desk.save(one, older)
    await desk.told(POSTS_PARSED)
    await desk.change("UPDATE posts SET captured_at = now() - interval '1 hour' WHERE message_id = 1")
    assert await again(desk, one=made(desk, pairs=[(POSTS_PARSED, TAGGING)])) == {POSTS_PARSED: {older.id}}


async def test_what_is_held_back_in_the_outbox_is_not_missing(desk: Desk) -> None:
    """The stages are slow (backpressure): telling of it again would make it more."""
    await desk.save(post(1, WEATHER))
    await made(desk).look_at_archive()
    assert len(await desk.told(POSTS_PARSED)) == 1


async def test_recent_posts_are_looked_at_once_and_when_they_had_their_time(desk: Desk) -> None:
    old, lost, young = post(1), post(2), post(3)
    await desk.save(old, lost, young)
    await desk.change("UPDATE posts SET captured_at = now() - interval '9 days' WHERE message_id = 1")
    await desk.change("UPDATE posts SET captured_at = now() - interval '1 hour' WHERE message_id = 2")
    await desk.told(POSTS_PARSED)
    assert await made(desk, timedelta()).look_at_recent() == 1
    assert [event.post_id for event in await desk.told(POSTS_PARSED)] == [lost.id]
    await desk.change("UPDATE upkeep SET at = to_timestamp(0)")
    assert await made(desk, timedelta()).look_at_recent() == 0
    assert await again(desk, after=timedelta()) == {POSTS_PARSED: {old.id}}, "the whole archive, by turns"


async def test_what_waits_or_is_dead_is_not_missing(desk: Desk) -> None:
    """G4: a dead letter is somebody's decision, and what waits comes by itself."""
    waiting, dead, edited, blind = post(1, WEATHER), post(2, WEATHER), post(3, WEATHER), photo(4, WEATHER)
    await desk.save(waiting, dead, edited, blind)
    await passed(desk, waiting, TAGGING, "waiting")
    await passed(desk, dead, TAGGING, "dead")
    await passed(desk, edited, TAGGING, "dead")
    await passed(desk, blind, VISION_ANALYSIS, "dead")
    assert await again(desk) == {POSTS_PARSED: {blind.id}}, "its words do not wait for its pictures"
    await desk.save(post(3, FOOTBALL))  # its new words are not dead
    assert await again(desk) == {POSTS_PARSED: {edited.id, blind.id}}


async def test_what_waits_for_days_waits_nowhere(desk: Desk) -> None:
    """G3: nothing is put off for longer than to the next day."""
    one, budget, dead = post(1, WEATHER), post(2, WEATHER), post(3, WEATHER)
    await desk.save(one, budget, dead)
    for some, outcome in ((one, "waiting"), (budget, "waiting"), (dead, "dead")):
        await passed(desk, some, TAGGING, outcome)
    await desk.change("UPDATE post_steps SET at = now() - interval '3 days'")
    await passed(desk, budget, TAGGING, "waiting")  # tried again today
    assert await again(desk) == {POSTS_PARSED: {one.id}}


async def down(_: Sequence[PostParsed]) -> list[Outcome]:
    raise Retry("the model is away", after=3600)


async def test_n12_posts_that_wait_for_a_model_survive_flushall(desk: Desk) -> None:
    """A step that says `waiting` proves nothing about a Redis that has lost its data, and Redis is asked."""
    waiting, indexed = post(1, WEATHER), post(2, WEATHER)
    await desk.save(waiting)
    watch = made(desk, timedelta(), list(groups()))
    await watch.watch_redis()
    consumer = await run_until_waiting(desk)
    await desk.save(indexed)
    await desk.told(POSTS_PARSED)
    await whole(desk, indexed)
    await desk.change("UPDATE upkeep SET at = to_timestamp(0)")
    assert not await watch.watch_redis()
    assert await again(desk, one=watch) == NOTHING
    await desk.redis.flushall()
    desk.begin_anew()
    await desk.change("UPDATE upkeep SET at = to_timestamp(0)")
    assert await watch.watch_redis()
    report = await watch.report()
    assert report["status"] == "degraded"
    assert "Redis lost its data" in report["error"]
    assert await again(desk, one=watch) == {POSTS_PARSED: {waiting.id}}, "at once, without its grace"
    assert (await watch.report())["status"] == "ok"
    assert await again(desk, one=watch) == NOTHING, "once"
    assert consumer == "waiting"


async def run_until_waiting(desk: Desk) -> str:
    """Tagging in the real loop, whose model is away; what its step says then."""
    await desk.told(POSTS_PARSED)
    stage = Stage(name=TAGGING, handlers={POSTS_PARSED: down})
    consumer = Consumer(desk.redis, stage, name="one", steps=desk.steps, times=ConsumerTimes(block_ms=20))
    supervisor = Supervisor()
    await supervisor.start(TAGGING, consumer.run)
    await eventually(lambda: desk.rows("SELECT 1 FROM post_steps"))
    await supervisor.stop()
    (row,) = await desk.rows("SELECT outcome FROM post_steps")
    return str(row.outcome)


async def test_n12_a_redis_that_went_back_in_time_is_noticed(desk: Desk) -> None:
    """Its last snapshot has the mark, and none of what came after it."""
    watch = made(desk)
    await watch.watch_redis()
    snapshot = await desk.redis.dump("mark")
    assert snapshot is not None
    for _ in range(2):
        await desk.change("UPDATE upkeep SET at = to_timestamp(0)")
        assert not await watch.watch_redis()
    await desk.redis.restore("mark", 0, snapshot, replace=True)
    await desk.change("UPDATE upkeep SET at = to_timestamp(0)")
    assert await watch.watch_redis()


async def test_n12_a_replayed_letter_that_redis_forgot_is_missing(desk: Desk) -> None:
    one = post(1, WEATHER)
    await desk.save(one)
    await tagged(desk, one)

    async def refuse(_: Sequence[PostParsed]) -> list[Outcome]:
        raise RuntimeError

    await desk.told(POSTS_PARSED)
    await run_stage(desk, TAGGING, {POSTS_PARSED: refuse})
    assert await again(desk) == NOTHING, "it lies in the dead letters"
    await made(desk).watch_redis()
    assert await replay(desk.redis, desk.letters, await desk.letters.find())
    assert await again(desk) == NOTHING, "it waits for its stage"
    await desk.redis.flushall()
    desk.begin_anew()
    await desk.change("UPDATE upkeep SET at = to_timestamp(0)")
    assert await made(desk).watch_redis()
    assert await again(desk) == {POSTS_PARSED: {one.id}}


async def test_an_edit_that_was_lost_is_found_after_its_own_grace(desk: Desk) -> None:
    """G5: the post is old, the edit is not."""
    one = post(1, WEATHER)
    await desk.save(one)
    await whole(desk, one)
    await desk.change("UPDATE posts SET captured_at = now() - interval '3 hours'")
    await desk.change("UPDATE post_steps SET at = now() - interval '3 hours'")
    await desk.save(post(1, FOOTBALL))
    assert await again(desk, after=timedelta()) == NOTHING
    assert await again(desk) == {POSTS_PARSED: {one.id}}


async def test_a_skipped_step_is_no_entry_in_an_index(desk: Desk) -> None:
    one = post(1, WEATHER)
    await desk.save(one)
    await tagged(desk, one)
    await passed(desk, one, INDEXING, "skipped")
    assert await again(desk) == {POSTS_PARSED: {one.id}}


async def test_n13_lost_tags_come_back(desk: Desk) -> None:
    """Every step is done, and yet the result is not there."""
    one, other = post(1, WEATHER), post(2, WEATHER)
    await desk.save(one, other)
    await whole(desk, one, other)
    for stage in (TAGGING, "tag_persistence"):
        await passed(desk, one, stage)
    assert await again(desk) == NOTHING
    await desk.change("DELETE FROM post_enrichment WHERE kind = 'tags' AND post_id = :id", id=one.id)
    assert await again(desk) == {POSTS_PARSED: {one.id}}


async def test_n13_links_that_were_not_read_come_back(desk: Desk) -> None:
    """The post is in the index, by way of its pictures; what should have read its links was lost."""
    linked, read, plain = (post(number, WEATHER, links=(Link("https://example.org/", ""),)) for number in (1, 2, 3))
    await desk.save(linked, read, plain)
    await whole(desk, linked, read, plain)
    await desk.pages.want([(linked.id, linked.content_hash), (read.id, read.content_hash)])
    await desk.pages.want([(plain.id, plain.content_hash)])
    await desk.pages.unlink([(plain.id, plain.content_hash)])  # decided anew: nothing to read
    await passed(desk, linked, CRAWL_TRIGGER)
    await passed(desk, read, ENRICHMENT)
    assert await again(desk) == {POSTS_PARSED: {linked.id}}


async def test_n13_a_lost_retagging_comes_back(desk: Desk) -> None:
    lost, forgotten, right, wordless = (photo(number, WEATHER) for number in (1, 2, 3, 4))
    posts = lost, forgotten, right, wordless
    await desk.save(*posts)
    await whole(desk, *posts)
    for number, one in enumerate(posts):
        await desk.store(one, drawing(number))
        await seen(desk, one, retagging="skipped" if one is wordless else "done")
    await tagged(desk, right, rank=1)
    await desk.change("DELETE FROM post_steps WHERE stage = 'retagging' AND post_id = :id", id=lost.id)
    assert await again(desk) == {MEDIA_SETTLED: {lost.id, forgotten.id}}


async def test_an_unseen_picture_is_found_once_its_files_are_settled(desk: Desk) -> None:
    pending, unseen, waited, looked_at = photo(1), photo(2), photo(3), photo(4)
    await desk.save(pending, unseen, waited, looked_at)
    await whole(desk, pending, unseen, waited, looked_at)
    await passed(desk, pending, VISION_ANALYSIS, "skipped")
    await passed(desk, waited, VISION_ANALYSIS, "skipped")  # its file was still on its way then, and nobody came again
    await desk.store(unseen, drawing(1))
    await desk.fail(waited, "gone")
    await desk.store(looked_at, drawing(2))
    await seen(desk, looked_at)
    assert await again(desk) == {MEDIA_SETTLED: {unseen.id, waited.id}}


async def test_a_deleted_post_that_the_indexes_still_have_is_found(desk: Desk) -> None:
    """G5."""
    kept, gone, never = post(1, WEATHER), post(2, WEATHER), post(3, WEATHER)
    await desk.save(kept, gone, never)
    await whole(desk, kept, gone)
    for one in (kept, gone, never):
        await desk.delete(one)
    await passed(desk, gone)  # it was taken out
    assert await again(desk, after=timedelta()) == NOTHING
    assert await again(desk) == {POSTS_DELETED: {kept.id}}


async def test_channels_that_nobody_watches_any_more_are_left_alone(desk: Desk) -> None:
    await desk.save(post(1, WEATHER))
    await desk.change("UPDATE channels SET status = 'removed'")
    assert await again(desk) == NOTHING


async def test_n32_two_workers_never_look_at_the_same_posts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "PAGE", 7)
    monkeypatch.setattr(reconciler, "ARCHIVE_EVERY", timedelta())
    posts = [post(number, WEATHER) for number in range(1, 61)]
    await desk.save(*posts)
    await desk.change("UPDATE posts SET captured_at = now() - interval '1 hour'")
    await desk.told(POSTS_PARSED)
    examined = sample("posts_examined_total")
    both = made(desk), made(desk)
    for _ in range(30):
        await asyncio.gather(*(one.look_at_archive() for one in both))
        if (await both[0].upkeep.state(reconciler.ARCHIVE, reconciler.ArchiveState)).ended_at:
            break
    told = [event.post_id for event in await desk.told(POSTS_PARSED)]
    assert sorted(told) == sorted(one.id for one in posts), "each once"
    assert sample("posts_examined_total") - examined == len(posts)


async def test_an_album_that_is_indexed_is_not_missing(desk: Desk, indexes: Indexes) -> None:
    """Its event names no content: the step is about the words that the post had when it was indexed."""
    items, albums = await album(desk)
    told = await desk.told(ALBUMS_PARSED)
    await begin_albums(told, albums=albums)
    settled = [analyzed(event, grouped_id=900) for event in await desk.told(MEDIA_SETTLED)]
    assembled = events_of(await follow_items(settled, albums=albums))
    await desk.publish(POSTS_VISION_ANALYZED, settled)
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
    assert await again(desk) == NOTHING
    assert len(items) == 2


async def test_n13_an_album_that_redis_forgot_is_assembled_anew(desk: Desk) -> None:
    """Its items were looked at before: the tables know it, so it need not wait for its time limit."""
    items, albums = await album(desk)
    for one in items:
        await passed(desk, one)
    (told,) = await desk.told(ALBUMS_PARSED)
    await begin_albums([told], albums=albums)
    await desk.redis.delete(album_state(told.album_id))
    await desk.change("DELETE FROM post_enrichment WHERE kind = 'album'")
    assert await again(desk) == {ALBUMS_PARSED: {told.album_id}}
    (outcome,) = await begin_albums([told], albums=albums)
    assert isinstance(outcome, Done)
    assert [event.partial for event in events_of([outcome])] == [False]
    assert await again(desk) == NOTHING


async def album(desk: Desk) -> tuple[list[Post], Albums]:
    """Of two pictures, looked at and tagged."""
    items = [photo(1, "Альбом", grouped_id=900), photo(2, grouped_id=900)]
    await desk.save(*items, upto=2)
    for number, one in enumerate(items):
        await desk.store(one, drawing(number))
        await tagged(desk, one)
        await seen(desk, one)
    summaries = AlbumSummaries(desk.stored_posts, desk.enrichments, desk.pictures)
    return items, Albums(desk.redis, summaries, utc_now)
