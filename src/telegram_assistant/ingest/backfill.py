"""The job that closes holes (SPEC 3.6): one process per channel at a time, behind the visits in importance."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf

from redis.asyncio import Redis

from telegram_assistant.bus.observer import Pressure
from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage, Span
from telegram_assistant.domain.source import PAGE_LIMIT, Source, SourceError
from telegram_assistant.errors import AssistantError, Skip
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.ingest.origins import Readers
from telegram_assistant.ingest.pages import Memory, between_albums, look_at, read_on, remembered
from telegram_assistant.ingest.parser import LOW_WATERMARK_TTL
from telegram_assistant.ingest.saver import Saved, Saver
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import BACKFILL_JOBS
from telegram_assistant.names import backfill_lock, ingest_alive, low_watermark
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.redis import text_of, time_to_text

LOCK_TTL = 3600.0
IDLE_SECONDS = 2.0
LOOK_SHARE = 50.0  # a look for holes takes at most so small a part of the time, however many channels there are
LONGEST_IDLE = 30.0
AFTER_FAILURE_SECONDS = 30.0
LONGEST_PAUSE = 3600.0
ALIVE_SECONDS = 30.0  # how long a sign of life lasts
MANY = 50
SLICE_PAGES = 30  # then the next channel has its turn
AT_ONCE = 3
ROUNDS = 3  # a page that left messages out leaves smaller holes behind

log = get_logger(__name__)


def rest_after(look_seconds: float) -> float:
    """Seconds until the next look for holes, when there are none."""
    return min(LONGEST_IDLE, max(IDLE_SECONDS, LOOK_SHARE * look_seconds))


class LockLost(AssistantError):
    """Another process backfills this channel now."""


@dataclass(slots=True)
class Work:
    """A backfill over all its turns."""

    asked_from: datetime | None
    new: int = 0
    oldest: datetime | None = None

    def add(self, filled: Filled) -> None:
        self.new += filled.new
        self.oldest = min((moment for moment in (self.oldest, filled.oldest) if moment is not None), default=None)


class Backfill:
    """A supervised job: asks the ledger what is unknown, and reads that."""

    def __init__(
        self,
        channels: Channels,
        filler: HoleFiller,
        readers: Readers,
        redis: Redis,
        *,
        owner: str,
        alive_seconds: float = ALIVE_SECONDS,
        pressure: Pressure | None = None,
    ) -> None:
        self._channels = channels
        self._filler = filler
        self._readers = readers
        self._redis = redis
        self._owner = owner
        self._alive_seconds = alive_seconds
        self._pressure = pressure
        self._not_before: dict[int, float] = {}  # channels that failed wait a little
        self._work: dict[int, Work] = {}  # by channel, what the slices of a backfill have found so far
        self._in_vain: Counter[int] = Counter()  # times that a channel was read and still has holes
        self._idle = IDLE_SECONDS

    async def run(self, task: Task) -> None:
        task.ready()
        living = asyncio.ensure_future(self._show_life())
        try:
            while True:
                await self.step(task.progress)
                task.progress()
                if living.done():
                    living.result()
                await asyncio.sleep(0 if self._work else self._idle)
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def _show_life(self) -> None:
        while True:
            heed_stop()
            await self._redis.set(ingest_alive(self._owner), "1", px=int(self._alive_seconds * 1000))
            await asyncio.sleep(self._alive_seconds / 3)

    async def step(self, progress: Callable[[], None] = lambda: None) -> int:
        """A turn: a slice of every channel that has holes, a few at a time; how many channels are closed.

        The largest history takes as many turns as it needs, and no small one waits for more than a slice of it.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._not_before = {channel_id: until for channel_id, until in self._not_before.items() if until > now}
        had: set[int] = set()
        done = 0
        while True:
            waiting, reach, began = {*self._not_before, *had}, await self._readers.reach(), loop.time()
            found = await self._channels.with_holes(limit=MANY, without=waiting, reach=reach)
            self._idle = rest_after(loop.time() - began)
            if not found:
                return done
            had |= {channel.id for channel in found}
            done += await self._together(found, progress)

    async def _together(self, channels: list[Channel], progress: Callable[[], None]) -> int:
        """Some at once: while one waits for Telegram, another is saved."""
        queue = iter(channels)

        async def work() -> int:
            return sum([await self._close(channel, progress) for channel in queue])

        running = [asyncio.ensure_future(work()) for _ in range(min(AT_ONCE, len(channels)))]
        try:
            return sum(await asyncio.gather(*running))
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _close(self, channel: Channel, progress: Callable[[], None]) -> bool:
        loop = asyncio.get_running_loop()
        lock = Lock(self._redis, backfill_lock(channel.id), self._owner, ttl=LOCK_TTL, monotonic=loop.time)
        if not (await lock.hold() or await self._inherited(lock, channel)):
            self._not_before[channel.id] = loop.time() + self._alive_seconds
            return False
        work = self._work.get(channel.id)
        if work is None:
            work = self._work[channel.id] = Work(channel.history_from)
            BACKFILL_JOBS.labels(channel.id, "enqueued").inc()
        try:
            filled = await self._slice(channel, lock, progress)
        except (SourceError, LockLost) as exc:
            wait = exc.flood_seconds if isinstance(exc, SourceError) and exc.flood_seconds else AFTER_FAILURE_SECONDS
            self._not_before[channel.id] = loop.time() + min(wait, LONGEST_PAUSE)
            BACKFILL_JOBS.labels(channel.id, "failed").inc()
            log.warning("backfill_failed", channel=channel.shown, reason=str(exc), again_in=round(wait))
            return False
        except Skip as exc:
            log.info("backfill_ended", channel=channel.shown, reason=str(exc))
            return False
        finally:
            await lock.release()
        work.add(filled)
        return False if filled.more else await self._finished(channel, self._work.pop(channel.id))

    async def _slice(self, channel: Channel, lock: Lock, progress: Callable[[], None]) -> Filled:
        async def keep_lock() -> None:
            progress()
            if not await lock.hold():
                raise LockLost(channel.shown)

        async def when_there_is_room() -> None:
            """History does not run away, and is the only thing that can come faster than the stages work."""
            await keep_lock()
            while self._pressure is not None and await self._pressure.full():
                await asyncio.sleep(IDLE_SECONDS)
                await keep_lock()

        source = await self._readers.reader(channel, priority=Priority.BACKFILL)
        return await self._filler.fill(channel, source, before_page=when_there_is_room, most_pages=SLICE_PAGES)

    async def _finished(self, channel: Channel, work: Work) -> bool:
        ledger = await self._channels.ledger(channel.id)
        closed = ledger.gaps.intersection(Coverage.of_spans((1, channel.cursor_id + 1))).is_empty
        if closed:
            self._in_vain.pop(channel.id, None)
        else:
            # There are messages that cannot be read.
            pause = min(AFTER_FAILURE_SECONDS * 2 ** self._in_vain[channel.id], LONGEST_PAUSE)
            self._not_before[channel.id] = asyncio.get_running_loop().time() + pause
            self._in_vain[channel.id] += 1
        BACKFILL_JOBS.labels(channel.id, "completed" if closed else "failed").inc()
        log.info("backfill_done", channel=channel.shown, new=work.new, closed=closed)
        await self._move_watermark(channel, work)
        return closed

    async def _move_watermark(self, channel: Channel, work: Work) -> None:
        """Back to where this backfill began (SPEC 3.5): what was asked for, or the oldest post that it found."""
        since = work.asked_from or work.oldest
        if since is not None:
            await self._redis.set(low_watermark(channel.id), time_to_text(since), ex=LOW_WATERMARK_TTL)

    async def _inherited(self, lock: Lock, channel: Channel) -> bool:
        """An hour is long (SPEC 3.6): a process that died is not waited for."""
        holder = text_of(await self._redis.get(backfill_lock(channel.id)))
        if holder is None:
            return False
        # Our own is one that we could not give back, because Redis was away.
        if holder != self._owner and await self._redis.exists(ingest_alive(holder)):
            return False
        return await lock.inherit(holder)


@dataclass(slots=True)
class Filled:
    """What came of it: how many new posts, and when the oldest of them was made."""

    new: int = 0
    oldest: datetime | None = None
    pages: int = 0
    more: bool = False  # the slice is over, the holes are not

    def add(self, saved: Saved, pages: int = 0) -> None:
        self.new += len(saved.new)
        self.pages += pages
        dates = [post.posted_at for post in saved.new]
        self.oldest = min([*dates, *([self.oldest] if self.oldest else [])], default=None)


def _to_ask(holes: list[Span], *, all_of_them: bool) -> list[int]:
    """The ids to ask for one by one, the newest first. A wide hole is left to pages, where these prove anything."""
    return [
        i
        for start, stop in reversed(holes)
        if all_of_them or stop - start <= PAGE_LIMIT
        for i in range(stop - 1, start - 1, -1)
    ]


class HoleFiller:
    """Reads holes bit by bit; each bit is saved and proven by itself, so it can stop and go on at any point."""

    def __init__(
        self, channels: Channels, saver: Saver, *, clock: Callable[[], datetime], memory: Memory | None = None
    ) -> None:
        self._channels = channels
        self._saver = saver
        self._clock = clock
        self._memory = memory

    async def fill(
        self,
        channel: Channel,
        source: Source,
        *,
        before_page: Callable[[], Awaitable[None]],
        most_pages: float = inf,
    ) -> Filled:
        """Read every hole below the cursor, the newest first; `more` when `most_pages` were not enough."""
        if channel.history_from is not None:
            await before_page()
            below = await between_albums(source, await source.last_id_before(channel.history_from))
            await self._channels.request_from(channel.id, below + 1, answers=channel.history_from)
        filled = Filled()
        tried: list[Span] = []
        for _ in range(ROUNDS):
            holes = await self._holes(channel)
            if not holes or holes == tried:  # the rest cannot be read
                break
            tried = holes
            for hole in reversed(holes):
                if hole[1] - hole[0] > PAGE_LIMIT:
                    await self._read_pages(
                        channel, source, hole=hole, before_page=before_page, filled=filled, most_pages=most_pages
                    )
                    if filled.more:
                        return filled
            # Many small holes cost one request together, and an answer by ids says of each what it holds.
            ids = _to_ask(await self._holes(channel), all_of_them=not source.pages_prove)
            filled.more = not source.pages_prove and len(ids) > PAGE_LIMIT
            _, saved = await self._look_at(source, ids[:PAGE_LIMIT] if filled.more else ids, before_page)
            filled.add(saved)
            if filled.more:
                return filled
        return filled

    async def _holes(self, channel: Channel) -> list[Span]:
        ledger = await self._channels.ledger(channel.id)
        known = await remembered(self._memory, channel.id)
        holes = ledger.gaps.intersection(Coverage.of_spans((1, channel.cursor_id + 1)))
        return list(holes.subtract(Coverage.of_ids(known.left_alone)))

    async def _look_at(
        self, source: Source, ids: Sequence[int], before_page: Callable[[], Awaitable[None]]
    ) -> tuple[int, Saved]:
        return await look_at(self._saver, source, ids, clock=self._clock, before_page=before_page, memory=self._memory)

    async def _read_pages(
        self,
        channel: Channel,
        source: Source,
        *,
        hole: Span,
        before_page: Callable[[], Awaitable[None]],
        filled: Filled,
        most_pages: float,
    ) -> None:
        start, stop = hole
        # The cursor is above: all that lies below it exists already, so an end below it proves up to it.
        stretches = read_on(
            *(source, start - 1),
            newest_id=channel.cursor_id,
            until=stop,
            clock=self._clock,
            before_page=before_page,
            memory=self._memory,
        )
        async with aclosing(stretches):
            async for stretch in stretches:
                saved = await self._saver.save(replace(stretch.reading, cursor_id=None))
                filled.add(saved, stretch.pages)
                if saved.absent:
                    _, again = await self._look_at(source, saved.absent, before_page)
                    filled.add(again)
                if filled.pages >= most_pages:
                    filled.more = True
                    return
