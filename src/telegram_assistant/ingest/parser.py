"""Reads one channel: oldest first, from its cursor to the newest post, a page at a time (SPEC 2).

Correctness rests on message ids and on what a page proves. The times kept in Redis are for operators.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from redis.asyncio import Redis

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.silence import arrivals, intervals, overlap
from telegram_assistant.domain.source import Name, Source, SourceError
from telegram_assistant.domain.visits import WINDOWS, Mode, Window, covered_by, due_window, first_visit_since
from telegram_assistant.ingest.catching_up import CatchingUp, CaughtUp
from telegram_assistant.ingest.pages import Memory, Stretch, between_albums, look_at, read_on
from telegram_assistant.ingest.saver import Reading, Saved, Saver
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import HWM_AGE, INTERARRIVAL, POSTS_DELETED_COUNT, POSTS_EDITED, POSTS_PARSED_COUNT
from telegram_assistant.names import interarrival_stats, low_watermark, parse_hwm
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.redis import time_from_text, time_to_text

LOW_WATERMARK_TTL = timedelta(days=1)

log = get_logger(__name__)


@dataclass(slots=True)
class Parsed:
    """What a visit found: SPEC 2.1's count and newest date, and what else changed."""

    new: int = 0
    edited: int = 0
    deleted: int = 0
    pages: int = 0
    newest_at: datetime | None = None
    albums_open: int = 0
    unreadable: list[int] = field(default_factory=list)
    name: Name | None = None  # what the channel is called now
    refreshed: tuple[str, ...] = ()  # the windows of domain.refresh that were read again

    def add(self, stretch: Stretch, saved: Saved) -> None:
        self.pages += stretch.pages
        self.unreadable += stretch.unreadable
        self.name = stretch.name or self.name
        self.albums_open = saved.albums_open
        self.count(saved)

    def count(self, saved: Saved) -> None:
        self.new += len(saved.new)
        self.edited += len(saved.edited)
        self.deleted += len(saved.deleted)
        dates = [post.posted_at for post in saved.new]
        self.newest_at = max([*dates, *([self.newest_at] if self.newest_at else [])], default=None)


class ChannelParser:
    """`ChannelParser → MediaProcessor → AtomicDBSaver` of SPEC 2.1; media follow in their own time."""

    def __init__(
        self,
        channels: Channels,
        saver: Saver,
        redis: Redis,
        statistics: Statistics,
        *,
        clock: Callable[[], datetime],
        first_visit_hours: float = 24,
        adaptive: bool = True,
        catch_up: CatchingUp | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._channels = channels
        self._saver = saver
        self._redis = redis
        self._statistics = statistics
        self._memory = memory
        self._catch_up = catch_up  # None: only history is read
        self._clock = clock
        self._first_visit_hours = first_visit_hours
        self._adaptive = adaptive

    async def parse(
        self, channel: Channel, source: Source, mode: Mode, *, before_page: Callable[[], Awaitable[None]]
    ) -> Parsed:
        """Read to the end of the channel. What is saved stays saved, even if the rest fails."""
        told = CaughtUp()
        if self._catch_up is not None:
            told = await self._catch_up(channel, source, before_page=before_page)
        since, window = await self._since(channel, mode)
        if channel.requested_from is None:
            after_id = await self._begin(channel, source, since)
        else:
            known = await self._channels.last_id_before(channel.id, since, up_to=channel.cursor_id)
            after_id = min(channel.cursor_id, max(known, channel.requested_from - 1))
        parsed = Parsed(refreshed=covered_by(window) if window else ())
        parsed.count(told.saved)
        self._count_changes(told.saved, mode)
        arrived_at = observe_intervals(channel.id, channel.last_post_at, told.saved)
        counted = told.counted
        stretches = read_on(
            source,
            after_id,
            newest_id=channel.newest_id,
            clock=self._clock,
            before_page=before_page,
            memory=self._memory,
        )
        async with aclosing(stretches):
            async for stretch in stretches:
                reading = stretch.reading if counted else replace(stretch.reading, pts=stretch.pts)
                counted = True
                saved = await self._saver.save(reading)
                if saved.absent and not await self._look_again(source, saved, before_page):
                    parsed.refreshed = ()  # these windows are not done with: the next visit reads them once more
                parsed.add(stretch, saved)
                arrived_at = observe_intervals(channel.id, arrived_at, saved)
                await self._count(channel, stretch.reading, saved, mode)
        if parsed.name is not None and parsed.name != Name(channel.title, channel.username, channel.protected):
            await self._rename(channel, parsed.name)
        await self._finished(channel, since)
        parsed.refreshed += told.done
        return parsed

    async def _rename(self, channel: Channel, name: Name) -> None:
        """Addresses of posts have the username in them, and a name that was given up may be another channel's now."""
        await self._channels.rename(channel.id, name.title, name.username, protected=name.protected)
        log.info("channel_renamed", title=name.title, username=name.username)

    async def _look_again(self, source: Source, saved: Saved, before_page: Callable[[], Awaitable[None]]) -> bool:
        """Were they deleted, or only left out? Who must wait before asking that can still read what is new."""
        try:
            _, again = await look_at(
                self._saver,
                source,
                saved.absent,
                clock=self._clock,
                before_page=before_page,
                memory=self._memory,
            )
        except SourceError as exc:
            if exc.failure is not Failure.FLOOD:
                raise
            log.warning("second_look_postponed", ids=len(saved.absent), reason=str(exc))
            return False
        saved.add(again)
        return True

    async def _since(self, channel: Channel, mode: Mode) -> tuple[datetime, Window | None]:
        """From when on this visit reads: a first one looks back a day, later ones overlap with what was read.

        A historical visit reads all of the last day again (SPEC 1.1), and more where nothing was read for longer.
        When it is time to look at older posts again for counters, edits and deletions, the overlap is that much wider.
        A parse that did not finish left its high-water mark, and is resumed there (SPEC 2.2).
        """
        now = self._clock()
        if channel.requested_from is None or channel.last_post_at is None:
            return first_visit_since(now, self._first_visit_hours), WINDOWS[-1]
        high_water_mark = time_from_text(await self._redis.get(parse_hwm(channel.id)))
        if high_water_mark is not None:
            return high_water_mark, None
        stats = await self._statistics.of(channel.id)
        since = channel.last_post_at - overlap(stats.p95 if stats else None, adaptive=self._adaptive)
        if mode is Mode.HISTORICAL:
            since = min(since, first_visit_since(now, self._first_visit_hours))
        window = due_window(channel.refreshed, now)
        return (since if window is None else min(since, now - window.age)), window

    async def _begin(self, channel: Channel, source: Source, since: datetime) -> int:
        """Before a first visit: older posts are `not requested`, and the ledger says so."""
        below = await between_albums(source, await source.last_id_before(since))
        await self._channels.begin(channel.id, below + 1)
        return below

    async def _count(self, channel: Channel, reading: Reading, saved: Saved, mode: Mode) -> None:
        self._count_changes(saved, mode)
        if reading.posts:
            mark = reading.posts[-1].posted_at
            await self._redis.set(parse_hwm(channel.id), time_to_text(mark))
            HWM_AGE.labels(channel.id).set(_seconds(self._clock() - unfinished_since(mark, channel.last_success_at)))

    def _count_changes(self, saved: Saved, mode: Mode) -> None:
        POSTS_PARSED_COUNT.labels(mode).inc(len(saved.new))
        POSTS_EDITED.inc(len(saved.edited))
        POSTS_DELETED_COUNT.inc(len(saved.deleted))

    async def _finished(self, channel: Channel, since: datetime) -> None:
        """A successful parse clears the high-water mark and moves the low watermark (SPEC 2.2, 3.1, 3.5)."""
        async with self._redis.pipeline(transaction=False) as pipe:
            _ = pipe.delete(parse_hwm(channel.id), interarrival_stats(channel.id))
            _ = pipe.set(low_watermark(channel.id), time_to_text(since), ex=LOW_WATERMARK_TTL)
            await pipe.execute()
        HWM_AGE.labels(channel.id).set(0)


def unfinished_since(mark: datetime, last_success_at: datetime | None) -> datetime:
    """From when on a parse is late that left this mark. Who reads old posts again has an old mark, and is not late."""
    return mark if last_success_at is None else max(mark, last_success_at)


def _seconds(age: timedelta) -> float:
    return max(0.0, age.total_seconds())


def observe_intervals(channel_id: int, last: datetime | None, saved: Saved) -> datetime | None:
    """Each interval once, as it is first seen, an album as one arrival (SPEC 3.1); the newest, for the next page."""
    moments = arrivals((post.posted_at, post.grouped_id) for post in saved.new)
    new = [moment for moment in moments if last is None or moment > last]
    seen = INTERARRIVAL.labels(channel_id)
    for seconds in intervals([*([last] if last else []), *new]):
        seen.observe(seconds)
    return new[-1] if new else last
