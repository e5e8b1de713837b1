"""Silence (SPEC 3.2-3.6): a channel that is quiet for longer than usual is looked at at once, under its backfill lock.

Silence is no gap. What the look proves decides: the channel is silent, or there was something, and now it is here.
Only what an earlier visit should have seen is called a hole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from redis.asyncio import Redis

from telegram_assistant.domain.silence import GapReport, backfill_window_start, report_gap, zone_of
from telegram_assistant.ingest.backfill import LOCK_TTL
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import BACKFILL_JOBS, CHANNEL_GAP, MISSING_DURATION, SILENCE_LOOKS, THRESHOLD
from telegram_assistant.names import backfill_job, backfill_lock
from telegram_assistant.stores.postgres.channels import Channels, Quiet

JOB_TTL = timedelta(days=1)
PIECE = 1_000  # channels that are looked at in one go
OVERTAKEN = timedelta(minutes=1)  # a post of the last moment before a visit may have come too late for it

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """A look that was asked for, and what was known then."""

    asked_at: datetime
    last_post_at: datetime
    visited_at: datetime | None  # with success
    lock: Lock  # no other process backfills the channel meanwhile


class SilenceWatch:
    """Runs with every tick, over all channels, in a constant number of statements."""

    def __init__(
        self,
        channels: Channels,
        statistics: Statistics,
        redis: Redis,
        *,
        owner: str,
        clock: Callable[[], datetime],
        adaptive: bool = True,
    ) -> None:
        self._owner = owner
        self._channels = channels
        self._statistics = statistics
        self._redis = redis
        self._clock = clock
        self._adaptive = adaptive
        self._looks: dict[int, Look] = {}  # that are not over yet
        self._asked: dict[int, tuple[str, datetime]] = {}  # by channel, the job that Redis was asked about, and when

    async def check(self) -> int:
        """Set the gauges, and make what is unusually quiet due; how many channels that is."""
        now = self._clock()
        await self._statistics.renew()
        quiet = await self._channels.newest_posts()
        stats = await self._statistics.of_many([channel.id for channel in quiet])
        longest, looked, exceeded = timedelta(0), 0, 0
        for place, channel in enumerate(quiet):
            if place % PIECE == 0:
                await asyncio.sleep(0)  # a hundred thousand channels take a second: others want to go on
            await self._conclude(channel)
            known = stats.get(channel.id)
            report = report_gap(
                now,
                channel.last_post_at,
                known.p95 if known else None,
                zone=zone_of(channel.timezone),
                adaptive=self._adaptive,
            )
            THRESHOLD.labels(channel.id).set(report.threshold.total_seconds())
            CHANNEL_GAP.labels(channel.id).set(report.gap.total_seconds())
            if report.exceeded:
                exceeded += 1
                longest = max(longest, report.gap)
                looked += await self._look(channel, report, now)
        MISSING_DURATION.set(longest.total_seconds())
        log.info("adaptive thresholds", channels=len(quiet), measured=len(stats), exceeded=exceeded, looked_at=looked)
        return looked

    async def _look(self, channel: Quiet, report: GapReport, now: datetime) -> bool:
        """Once per window (SPEC 3.6): the window begins where the silence began."""
        if channel.id in self._looks:
            return False  # its posts may be stored while the visit is not over: what that shows is not known yet
        job = backfill_job(channel.id, backfill_window_start(channel.last_post_at))
        asked, at = self._asked.get(channel.id, ("", now))
        if asked == job and now - at < JOB_TTL:
            return False  # most silent channels stay silent: Redis need not be asked about each with every tick
        loop = asyncio.get_running_loop()
        lock = Lock(self._redis, backfill_lock(channel.id), self._owner, ttl=LOCK_TTL, monotonic=loop.time)
        if not await lock.hold():
            return False  # a backfill is at it: what it leaves silent is looked at afterwards
        self._asked[channel.id] = (job, now)
        if not await self._redis.set(job, "1", nx=True, ex=JOB_TTL):
            await lock.release()
            return False
        log.info(
            "adaptive threshold exceeded",
            channel=channel.shown,
            gap=round(report.gap.total_seconds()),
            threshold=round(report.threshold.total_seconds()),
            quiet_hours=report.quiet_hours.reason.value,
        )
        BACKFILL_JOBS.labels(channel.id, "enqueued").inc()
        await self._channels.make_due(now, channel.id)
        self._looks[channel.id] = Look(now, channel.last_post_at, channel.last_success_at, lock)
        return True

    async def _conclude(self, channel: Quiet) -> None:
        """The visit that was asked for has happened: the channel is silent, or what was there is here."""
        look = self._looks.get(channel.id)
        if look is None:
            return
        for status, at in (("completed", channel.last_success_at), ("failed", channel.last_error_at)):
            if at is not None and at > look.asked_at:
                BACKFILL_JOBS.labels(channel.id, status).inc()
                del self._looks[channel.id]
                await look.lock.release()
                if status == "completed":
                    outcome = await self._shown(channel, look)
                    SILENCE_LOOKS.labels(outcome).inc()
                    log.info("silence_looked_at", channel=channel.shown, outcome=outcome)
                return

    async def _shown(self, channel: Quiet, look: Look) -> str:
        """What a look showed. A post that is younger than the visit before it is news, and no hole."""
        if channel.last_post_at <= look.last_post_at:
            return "silent"
        if look.visited_at is None:
            return "news"
        until = look.visited_at - OVERTAKEN
        missed = await self._statistics.posted_between(channel.id, look.last_post_at, until)
        return "hole" if missed else "news"
