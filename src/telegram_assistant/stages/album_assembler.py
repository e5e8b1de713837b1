"""`album_assembler` (SPEC 4.10): follows the vision progress of every item, and says what an album shows.

State is one hash in Redis per album, changed by single commands and one script, so events may come in any order, twice,
or from two processes (LESSONS 20, 25). Items that vision left out count; a time limit makes the album partial.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.stage import Done, Outcome, each
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.album import album_id
from telegram_assistant.domain.events import AlbumAssembled, AlbumParsed, PostVisionAnalyzed
from telegram_assistant.errors import Skip
from telegram_assistant.names import ALBUM_ASSEMBLED, ALBUM_DEADLINES, album_state
from telegram_assistant.stages.album_summary import AlbumSummaries

LIMIT_SECONDS = 3600.0  # how long an album waits for its last picture
KEPT_SECONDS = 7 * 86_400
SWEEP_SECONDS = 5.0
DEADLINES_AT_ONCE = 50

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
