"""The rhythm of a channel (SPEC 3.1), and when its silence is suspicious: overlap, threshold, quiet hours, gap,
backfill window (SPEC 2.6, 3.2-3.6).

`p95` is the 95th percentile of a channel's posting intervals, in seconds; None when there is too little data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from telegram_assistant.domain.moments import as_utc

MOSCOW = ZoneInfo("Europe/Moscow")

FIXED_OVERLAP = timedelta(minutes=5)
MIN_OVERLAP = timedelta(minutes=2)
MAX_OVERLAP = timedelta(minutes=10)
OVERLAP_FACTOR = 0.5

FIXED_THRESHOLD = timedelta(hours=1)
MIN_THRESHOLD = timedelta(minutes=30)
MAX_THRESHOLD = timedelta(hours=12)
THRESHOLD_FACTOR = 1.5
NIGHT_FACTOR = 1.5
WEEKEND_FACTOR = 1.8
THRESHOLD_CAP = timedelta(hours=24)

NIGHT_BEGINS = 22
NIGHT_ENDS = 8
SATURDAY = 5
BACKFILL_WINDOW = timedelta(minutes=10)


class QuietReason(StrEnum):
    """Why few posts are expected."""

    WEEKEND = "weekend"
    NIGHT_HOURS = "night_hours"
    NORMAL = "normal"


class QuietHours(NamedTuple):
    """Whether few posts are expected, and why; equal to the pair of SPEC 3.3."""

    quiet: bool
    reason: QuietReason


@dataclass(frozen=True, slots=True)
class GapReport:
    """A channel's silence, beside what would be normal for it at this time."""

    gap: timedelta
    threshold: timedelta
    quiet_hours: QuietHours

    @property
    def exceeded(self) -> bool:
        return self.gap > self.threshold


def overlap(p95: float | None, *, adaptive: bool = True) -> timedelta:
    """How far a visit reads back into what was read before (SPEC 2.6)."""
    if p95 is None or not adaptive:
        return FIXED_OVERLAP
    return _clamp(p95 * OVERLAP_FACTOR, MIN_OVERLAP, MAX_OVERLAP)


def threshold(p95: float | None, now: datetime, *, zone: tzinfo = MOSCOW, adaptive: bool = True) -> timedelta:
    """From what silence on a channel is looked at again (SPEC 3.2).

    On a weekend night both factors apply. The first system had one coefficient for the hour and another for the
    day; and 12 h grow beyond the cap of 24 h only by both together (1.8 alone gives 21.6 h), so the cap was made
    for that. That the *reason* is then "weekend" (SPEC 3.3) does not change the reckoning.
    """
    local = as_utc(now).astimezone(zone)
    if p95 is None or not adaptive:
        return FIXED_THRESHOLD
    usual = _clamp(p95 * THRESHOLD_FACTOR, MIN_THRESHOLD, MAX_THRESHOLD)
    if _is_night(local):
        usual *= NIGHT_FACTOR
    if _is_weekend(local):
        usual *= WEEKEND_FACTOR
    return min(usual, THRESHOLD_CAP)


def quiet_hours(now: datetime, zone: tzinfo = MOSCOW) -> QuietHours:
    """Whether it is the weekend or night where the channel lives (SPEC 3.3); the weekend is named first."""
    local = as_utc(now).astimezone(zone)
    if _is_weekend(local):
        return QuietHours(quiet=True, reason=QuietReason.WEEKEND)
    if _is_night(local):
        return QuietHours(quiet=True, reason=QuietReason.NIGHT_HOURS)
    return QuietHours(quiet=False, reason=QuietReason.NORMAL)


def gap(now: datetime, newest_post: datetime) -> timedelta:
    """How long a channel has been silent, never negative: a post dated in the future is no gap (SPEC 3.4)."""
    return max(timedelta(0), as_utc(now) - as_utc(newest_post))


def report_gap(
    now: datetime, newest_post: datetime, p95: float | None, *, zone: tzinfo = MOSCOW, adaptive: bool = True
) -> GapReport:
    """The gap with all that a log line about it has to say (SPEC 3.4)."""
    return GapReport(
        gap=gap(now, newest_post),
        threshold=threshold(p95, now, zone=zone, adaptive=adaptive),
        quiet_hours=quiet_hours(now, zone),
    )


def backfill_window_start(moment: datetime) -> datetime:
    """The moment rounded down to 10 minutes, in UTC, so that one window has one job key (SPEC 3.6).

    Down, because a window that began later than asked for would leave a hole.
    """
    utc = as_utc(moment)
    past = timedelta(minutes=utc.minute, seconds=utc.second, microseconds=utc.microsecond) % BACKFILL_WINDOW
    return utc - past


def _is_weekend(local: datetime) -> bool:
    return local.weekday() >= SATURDAY


def _is_night(local: datetime) -> bool:
    return local.hour >= NIGHT_BEGINS or local.hour < NIGHT_ENDS


def _clamp(seconds: float, low: timedelta, high: timedelta) -> timedelta:
    # Clamped as a number: a huge p95 does not fit into a timedelta.
    return timedelta(seconds=min(max(seconds, low.total_seconds()), high.total_seconds()))


@lru_cache(maxsize=1000)
def known_zone(name: str) -> ZoneInfo | None:
    """None: there is no such zone. A row may name one; that channel then counts in the usual zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None  # unknown, no name of a zone at all, or that of a folder


def zone_of(name: str) -> ZoneInfo:
    return known_zone(name) or MOSCOW


MIN_INTERVALS = 3
EWMA_ALPHA = 0.3  # the last seven intervals make up 92 % of the value


@dataclass(frozen=True, slots=True)
class IntervalStats:
    """Posting intervals in seconds."""

    count: int
    median: float
    p95: float
    ewma: float


def arrivals(posts: Iterable[tuple[datetime, int | None]]) -> list[datetime]:
    """When something arrived, from pairs of posting time and grouped_id: an album arrives once, with its first item."""
    alone: list[datetime] = []
    albums: dict[int, datetime] = {}
    for posted_at, grouped_id in posts:
        moment = as_utc(posted_at)
        if grouped_id is None:
            alone.append(moment)
        else:
            albums[grouped_id] = min(moment, albums.get(grouped_id, moment))
    return sorted([*alone, *albums.values()])


def intervals(moments: Iterable[datetime]) -> list[float]:
    """Seconds between one arrival and the next, oldest first."""
    ordered = sorted(map(as_utc, moments))
    return [(later - earlier).total_seconds() for earlier, later in pairwise(ordered)]
