"""`album_assembler` (SPEC 4.10): follows the vision progress of every item, and says what an album shows.

State is one hash in Redis per album, changed by single commands and one script, so events may come in any order, twice,
or from two processes (LESSONS 20, 25). Items that vision left out count; a time limit makes the album partial.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.stage import Done, Outcome, each
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.events import AlbumAssembled, AlbumParsed, PostVisionAnalyzed
from telegram_assistant.domain.models import MOST_LABELS, Seen
from telegram_assistant.domain.post import album_id
from telegram_assistant.errors import Skip
from telegram_assistant.names import ALBUM_ASSEMBLED, ALBUM_DEADLINES, album_state
from telegram_assistant.stages.index_entry import ALBUM
from telegram_assistant.stages.vision_analysis import VISION
from telegram_assistant.stores.postgres.enrichment import Enrichment, Enrichments, Pictures, StoredPost, StoredPosts

LIMIT_SECONDS = 3600.0  # how long an album waits for its last picture
KEPT_SECONDS = 7 * 86_400
SWEEP_SECONDS = 5.0
DEADLINES_AT_ONCE = 50
LONGEST = 8000

# KEYS: the album's hash, the deadlines. ARGV: field, value, album id, deadline, seconds to keep, when it was said.
# Sets one field, then says whether the album is whole: 1, else 0. An older word about what belongs to it, which comes
# late from a process that died, does not count.
_NOTE = """
if ARGV[1] ~= 'album' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
elseif tonumber(redis.call('HGET', KEYS[1], 'said_at') or '0') <= tonumber(ARGV[6]) then
  redis.call('HSET', KEYS[1], 'album', ARGV[2], 'said_at', ARGV[6])
end
redis.call('EXPIRE', KEYS[1], ARGV[5])
local album = redis.call('HGET', KEYS[1], 'album')
if not album then return 0 end
local posts = cjson.decode(album)['post_ids']
for _, post in ipairs(posts) do
  if redis.call('HEXISTS', KEYS[1], 'item:' .. post) == 0 then
    redis.call('ZADD', KEYS[2], 'NX', ARGV[4], ARGV[3])
    return 0
  end
end
redis.call('ZREM', KEYS[2], ARGV[3])
return 1
"""


class Item(msgspec.Struct, frozen=True):
    """What came of one item."""

    pictures: int
    at: float


@dataclass(frozen=True)
class Albums:
    """The state of all albums, and what is made of a whole one."""

    redis: Redis
    summaries: AlbumSummaries
    clock: Callable[[], datetime]
    limit: float = LIMIT_SECONDS

    async def note(self, album: UUID, field: str, value: bytes, said_at: float = 0.0) -> bool:
        """Whether the album is whole now."""
        deadline = time.time() + self.limit
        keys = album_state(album), ALBUM_DEADLINES
        arguments = field, value.decode(), str(album), deadline, KEPT_SECONDS, said_at
        return bool(await cast("Any", self.redis.eval(_NOTE, 2, *keys, *arguments)))

    async def assembled(self, album: UUID) -> AlbumAssembled:
        """As far as it is known: partial, when not every item was looked at. Raises Skip for nothing to tell."""
        fields = await cast("Any", self.redis.hgetall(album_state(album)))
        if "album" not in fields:
            raise Skip("nothing is known of the album any more")
        event = msgspec.json.decode(fields["album"], type=AlbumParsed)
        items = [fields.get(_field(post_id)) for post_id in event.post_ids]
        done = [msgspec.json.decode(item, type=Item) for item in items if item is not None]
        partial = len(done) < len(items)
        summary = await self.summaries.make(event)
        return AlbumAssembled(
            trace_id=event.trace_id,
            occurred_at=self.clock(),
            idempotency_key=f"{ALBUM_ASSEMBLED}:{album}:{summary.fingerprint}:{partial}",
            tenant_id=event.tenant_id,
            channel_id=event.channel_id,
            album_id=album,
            post_id=summary.post_id,
            items_count=len(event.post_ids),
            items_analyzed=sum(item.pictures > 0 for item in done),
            partial=partial,
            vision_summary=summary.text,
            vision_labels=summary.labels,
            vision_ocr_text=summary.ocr_text,
            has_meme=summary.has_meme,
            has_text=bool(summary.ocr_text),
            assembly_lag_seconds=max(0.0, (self.clock() - event.occurred_at).total_seconds()),
        )


async def begin_albums(events: Sequence[AlbumParsed], *, albums: Albums) -> list[Outcome]:
    """What belongs to it. Which of its items were looked at before is known to the tables, if not to Redis."""

    async def one(event: AlbumParsed) -> Done:
        said_at = event.occurred_at.timestamp()
        for post_id, pictures in (await albums.summaries.looked_at(event.post_ids)).items():
            await albums.note(event.album_id, _field(post_id), msgspec.json.encode(Item(pictures, time.time())))
        if not await albums.note(event.album_id, "album", msgspec.json.encode(event), said_at):
            raise Skip("its items are still looked at")
        return await _tell(albums, event.album_id)

    return await each(events, one, at_once=4)


async def follow_items(events: Sequence[PostVisionAnalyzed], *, albums: Albums) -> list[Outcome]:
    """One item more was looked at, or left out."""

    async def one(event: PostVisionAnalyzed) -> Done:
        if event.grouped_id is None:
            raise Skip("")
        album = album_id(event.channel_id, event.grouped_id)
        item = Item(event.pictures, time.time())
        if not await albums.note(album, _field(event.post_id), msgspec.json.encode(item)):
            raise Skip("other items of the album are still looked at")
        return await _tell(albums, album)

    return await each(events, one, at_once=4)


async def keep_deadlines(task: Task, *, albums: Albums, publisher: Publisher) -> None:
    """A supervised job: an album whose time is over is told as far as it is known (LESSONS 20)."""
    task.ready()
    while True:
        late = await albums.redis.zrangebyscore(ALBUM_DEADLINES, "-inf", time.time(), start=0, num=DEADLINES_AT_ONCE)
        for name in cast("list[str]", late):
            try:
                event = await albums.assembled(UUID(name))
            except Skip:
                pass
            else:
                await albums.summaries.keep(event)
                await publisher.publish(ALBUM_ASSEMBLED, [event])
            await albums.redis.zrem(ALBUM_DEADLINES, name)
        task.progress()
        await asyncio.sleep(SWEEP_SECONDS)


def _field(post_id: UUID) -> str:
    return f"item:{post_id}"


async def _tell(albums: Albums, album: UUID) -> Done:
    event = await albums.assembled(album)
    await albums.summaries.keep(event)
    return Done((event,), note=f"{event.items_analyzed} of {event.items_count} items were looked at")


@dataclass(frozen=True, slots=True)
class Summary:
    """Of all pictures that were looked at."""

    post_id: UUID
    text: str
    labels: tuple[str, ...]
    ocr_text: str
    has_meme: bool
    fingerprint: str


class AlbumSummaries:
    """Makes them from what is stored of the items."""

    def __init__(self, stored_posts: StoredPosts, enrichments: Enrichments, pictures: Pictures) -> None:
        self._stored_posts = stored_posts
        self._enrichments = enrichments
        self._pictures = pictures

    async def make(self, album: AlbumParsed) -> Summary:
        """Raises Skip when no item is left."""
        posts = await self._stored_posts.read(album.post_ids)
        items = [posts[id_] for id_ in album.post_ids if id_ in posts and not posts[id_].deleted]
        if not items:
            raise Skip("every item of the album is gone")
        found = await self._pictures.of_posts(items)
        seen = [one for item in items for _, one in found[item.post_id]]
        return Summary(
            post_id=_speaker(items).post_id,
            text=_text(seen),
            labels=tuple(
                label for label, _ in Counter(label for one in seen for label in one.labels).most_common(MOST_LABELS)
            ),
            ocr_text="\n".join(one.ocr.text for one in seen if one.ocr and one.ocr.text)[:LONGEST],
            has_meme=any(one.is_meme for one in seen),
            fingerprint=sha256(repr([(item.post_id, item.content_hash) for item in items]).encode()).hexdigest()[:16],
        )

    async def looked_at(self, post_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Items that vision is done with, as they are now, and how many of their pictures it has seen."""
        found = await self._enrichments.of_posts(VISION, post_ids)
        posts = await self._stored_posts.read(list(found))
        return {
            post_id: sum(bool(picture["seen"]) for picture in found[post_id].data["pictures"])
            for post_id, post in posts.items()
            if post.content_hash == found[post_id].content_hash
        }

    async def keep(self, event: AlbumAssembled) -> None:
        """With the post that stands for the album, for its page and its entry in the indexes."""
        post = (await self._stored_posts.read([event.post_id])).get(event.post_id)
        if post is None:
            return
        data = {
            "album_id": str(event.album_id),
            "items_count": event.items_count,
            "items_analyzed": event.items_analyzed,
            "partial": event.partial,
            "vision_summary": event.vision_summary,
            "vision_labels": list(event.vision_labels),
            "vision_ocr_text": event.vision_ocr_text,
            "has_meme": event.has_meme,
        }
        await self._enrichments.save(ALBUM, [Enrichment(event.post_id, post.content_hash, data, "album_assembler")])


def _speaker(items: list[StoredPost]) -> StoredPost:
    """The item with the caption, or else the first."""
    return next((item for item in items if item.text), items[0])


def _text(seen: list[Seen]) -> str:
    described = dict.fromkeys(one.description for one in seen if one.description)
    kinds = Counter(one.classification.value for one in seen)
    shown = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
    return "\n".join([*([shown] if shown else []), *described])[:LONGEST]
