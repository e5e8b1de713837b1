"""`album_assembler` (SPEC 4.10, LESSONS 20, 25): whatever the order, whoever helps, an album is told as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any

import pytest
import pytest_asyncio

from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import AlbumAssembled, AlbumParsed, PostVisionAnalyzed
from telegram_assistant.domain.models import Classification, Identity, Ocr, Seen
from telegram_assistant.domain.post import album_id
from telegram_assistant.errors import Skip
from telegram_assistant.names import ALBUM_ASSEMBLED, ALBUM_DEADLINES, ALBUMS_PARSED, MEDIA_SETTLED
from telegram_assistant.stages.albums import Albums, AlbumSummaries, begin_albums, follow_items, keep_deadlines
from telegram_assistant.stages.index_entry import ALBUM
from telegram_assistant.stores.redis import open_redis
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import CHANNEL, Desk, analyzed, drawing, events_of, photo
from tests.integration.stages.loop import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

GROUP = 900
ITEMS = [photo(1, grouped_id=GROUP), photo(2, "Три снимка на выставке", grouped_id=GROUP), photo(3, grouped_id=GROUP)]
MEME = Seen(
    classification=Classification.MEME,
    description="a cat",
    is_meme=True,
    labels=("cat", "text"),
    ocr=Ocr(text="WHEN IT IS MONDAY", engine="t", confidence=0.9),
    provider="local",
    model="m",
)
PHOTO = Seen(
    classification=Classification.PHOTO, description="a hall", labels=("hall", "cat"), provider="local", model="m"
)

AlbumEvent = AlbumParsed | PostVisionAnalyzed


@dataclass
class Album:
    """Three pictures, saved and stored, and everything that is told of them."""

    desk: Desk
    whole: AlbumParsed
    items: list[PostVisionAnalyzed]

    @property
    def events(self) -> list[AlbumEvent]:
        return [self.whole, *self.items]

    def albums(self, **fields: Any) -> Albums:
        summaries = AlbumSummaries(self.desk.stored_posts, self.desk.enrichments, self.desk.pictures)
        return replace(Albums(self.desk.redis, summaries, utc_now), **fields)

    async def hear(self, events: Sequence[AlbumEvent], albums: Albums | None = None) -> list[Outcome]:
        """One after the other."""
        outcomes: list[Outcome] = []
        for event in events:
            if isinstance(event, AlbumParsed):
                outcomes += await begin_albums([event], albums=albums or self.albums())
            else:
                outcomes += await follow_items([event], albums=albums or self.albums())
        return outcomes

    async def kept(self) -> dict[str, Any]:
        (row,) = await self.desk.rows("SELECT post_id, data FROM post_enrichment WHERE kind = 'album'")
        assert row.post_id == ITEMS[1].id, "the item with the caption stands for the album"
        return dict(row.data)


@pytest_asyncio.fixture(loop_scope="session")
async def album(desk: Desk) -> Album:
    await desk.save(*ITEMS, upto=3)
    for number, (one, seen) in enumerate(zip(ITEMS, (PHOTO, MEME, PHOTO), strict=True)):
        sha256 = await desk.store(one, drawing(number))
        await desk.pictures.put(sha256, seen, identity=Identity("local", "m"))
    (whole,) = await desk.told(ALBUMS_PARSED)
    return Album(desk, whole, [analyzed(event, grouped_id=GROUP) for event in await desk.told(MEDIA_SETTLED)])


async def test_in_any_order_the_last_event_tells_the_same_album(album: Album) -> None:
    """LESSONS 20: events before the state were lost."""
    told: list[AlbumAssembled] = []
    for order in permutations(album.events):
        await album.desk.redis.flushdb()
        outcomes = await album.hear(order)
        assert [type(outcome) for outcome in outcomes] == [Skip, Skip, Skip, Done]
        told += events_of(outcomes)
    first = told[0]
    same = {"occurred_at": first.occurred_at, "assembly_lag_seconds": first.assembly_lag_seconds}
    assert [replace(one, **same) for one in told] == [first] * 24  # type: ignore[arg-type]  # two fields of their types
    assert (first.album_id, first.post_id) == (album_id(CHANNEL, GROUP), ITEMS[1].id)
    assert (first.items_count, first.items_analyzed, first.partial) == (3, 3, False)
    assert first.vision_summary == "meme: 1, photo: 2\na hall\na cat"
    assert set(first.vision_labels) == {"cat", "hall", "text"}
    assert first.vision_labels[0] == "cat"
    assert (first.vision_ocr_text, first.has_text, first.has_meme) == ("WHEN IT IS MONDAY", True, True)
    assert first.assembly_lag_seconds >= 0
    assert first.trace_id == album.whole.trace_id


async def test_events_that_come_twice_change_nothing(album: Album) -> None:
    """G2. After a crash between effect and publishing the same event must be able to tell it again."""
    events = album.events
    outcomes = await album.hear([event for event in events for _ in range(2)])
    assert [type(outcome) for outcome in outcomes] == [Skip] * 6 + [Done] * 2
    kept = await album.kept()
    again = await album.hear(events)
    assert {event.idempotency_key for event in events_of([*outcomes, *again])} == {
        events_of(outcomes)[0].idempotency_key
    }
    assert await album.kept() == kept
    assert (kept["items_count"], kept["items_analyzed"], kept["partial"]) == (3, 3, False)
    assert kept["vision_ocr_text"] == "WHEN IT IS MONDAY"
    assert await album.desk.redis.zcard(ALBUM_DEADLINES) == 0


async def test_an_item_that_was_left_out_counts(album: Album) -> None:
    """LESSONS 20: one skipped item blocked assembly for 24 h."""
    left_out = replace(album.items[2], pictures=0, left_out=1)
    (told,) = events_of(await album.hear([left_out, album.whole, *album.items[:2]]))
    assert (told.items_count, told.items_analyzed, told.partial) == (3, 2, False)


async def test_after_the_time_limit_it_is_partial_and_whole_once_the_rest_comes(album: Album) -> None:
    """LESSONS 20."""
    desk, albums = album.desk, album.albums(limit=0.0)
    outcomes = await album.hear([album.whole, *album.items[:2]], albums)
    assert [type(outcome) for outcome in outcomes] == [Skip] * 3
    assert await desk.redis.zcard(ALBUM_DEADLINES) == 1
    supervisor = Supervisor()
    job = partial(keep_deadlines, albums=albums, publisher=Publisher(desk.redis))
    task = await supervisor.start("deadlines", job)
    await eventually(lambda: told_late(desk))
    await supervisor.stop()
    assert task.failures == 0
    (told,) = await desk.told(ALBUM_ASSEMBLED)
    assert (told.items_count, told.items_analyzed, told.partial) == (3, 2, True)
    assert (await album.kept())["partial"] is True
    (whole,) = events_of(await album.hear(album.items[2:], albums))
    assert (whole.items_analyzed, whole.partial) == (3, False)
    assert whole.idempotency_key != told.idempotency_key
    assert (await album.kept())["partial"] is False


async def told_late(desk: Desk) -> bool:
    return not await desk.redis.zcard(ALBUM_DEADLINES)


async def test_an_album_that_became_whole_at_the_last_moment_is_not_called_partial(album: Album) -> None:
    """The job that keeps the time limits and the stage are different processes."""
    albums = album.albums()
    await album.hear([album.whole, *album.items])
    assert (await albums.assembled(album.whole.album_id)).partial is False


async def test_two_processes_share_the_items_and_one_of_them_tells(album: Album, redis_url: str) -> None:
    """LESSONS 25: one key, read, changed and written back without a lock."""
    other = open_redis(redis_url)
    mine, theirs = album.albums(), album.albums(redis=other)
    for _ in range(20):
        await other.flushdb()
        batches = await asyncio.gather(
            begin_albums([album.whole], albums=mine),
            follow_items(album.items[:1], albums=theirs),
            follow_items(album.items[1:2], albums=mine),
            follow_items(album.items[2:], albums=theirs),
        )
        assert len(events_of([outcome for batch in batches for outcome in batch])) == 1
    await other.aclose()


async def test_a_deleted_item_leaves_the_album(album: Album) -> None:
    """G5: it was looked at, and does not count any more."""
    desk = album.desk
    await album.hear([album.whole, *album.items])
    await desk.save(*ITEMS[:2], upto=3)
    (smaller,) = await desk.told(ALBUMS_PARSED)
    assert smaller.post_ids == (ITEMS[0].id, ITEMS[1].id)
    (told,) = events_of(await album.hear([smaller]))
    assert (told.items_count, told.items_analyzed, told.partial) == (2, 2, False)
    assert told.vision_summary == "meme: 1, photo: 1\na hall\na cat"
    # What a process that died had read long before comes late, and is not believed.
    (late,) = events_of(await album.hear([album.whole]))
    assert late.items_count == 2
    assert (await album.kept())["items_count"] == 2


async def test_an_album_waits_for_an_item_that_was_added(album: Album) -> None:
    desk, fourth = album.desk, photo(4, grouped_id=GROUP)
    await album.hear([album.whole, *album.items])
    await desk.save(*ITEMS, fourth, upto=4)
    (larger,) = await desk.told(ALBUMS_PARSED)
    (waits,) = await album.hear([larger])
    assert isinstance(waits, Skip)
    await desk.skip(fourth, "too large")
    last = [analyzed(event, pictures=0, grouped_id=GROUP) for event in await desk.told(MEDIA_SETTLED)]
    (told,) = events_of(await album.hear(last))
    assert (told.items_count, told.items_analyzed, told.partial) == (4, 3, False)


async def test_what_is_no_album_or_nowhere_any_more_is_passed_over(album: Album) -> None:
    desk = album.desk
    (single,) = await album.hear([replace(album.items[0], grouped_id=None)])
    assert isinstance(single, Skip)
    assert not str(single), "none of its business: no step is kept"
    await album.hear(album.items)
    await desk.save(photo(9), upto=9)  # all three are gone
    (outcome,) = await album.hear([album.whole])
    assert isinstance(outcome, Skip)
    assert str(outcome) == "every item of the album is gone"
    assert await desk.enrichments.of_posts(ALBUM, [one.id for one in ITEMS]) == {}
