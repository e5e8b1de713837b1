"""The rhythm of a channel: intervals between arrivals, their median, p95 and EWMA (SPEC 3.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from telegram_assistant.domain.moments import as_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

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


def percentile(values: Iterable[float], fraction: float) -> float:
    """Continuous percentile, interpolated as PostgreSQL's `percentile_cont` does."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"a percentile's fraction lies between 0 and 1, not at {fraction}")
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values, no percentile")
    position = fraction * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    return low + (position - math.floor(position)) * (high - low)


def ewma_step(previous: float | None, value: float, alpha: float = EWMA_ALPHA) -> float:
    """The exponentially weighted mean after one value more; the first value is its own mean."""
    if not 0 < alpha <= 1:
        raise ValueError(f"the weight of a new value lies in (0, 1], not at {alpha}")
    return value if previous is None else previous + alpha * (value - previous)


def ewma(values: Iterable[float], alpha: float = EWMA_ALPHA) -> float | None:
    """The exponentially weighted mean of values given oldest first; None without values."""
    mean: float | None = None
    for value in values:
        mean = ewma_step(mean, value, alpha)
    return mean


def summarise(seconds: Sequence[float], alpha: float = EWMA_ALPHA) -> IntervalStats | None:
    """Statistics of intervals given oldest first, or None when there are fewer than 3."""
    mean = ewma(seconds, alpha)
    if mean is None or len(seconds) < MIN_INTERVALS:
        return None
    return IntervalStats(count=len(seconds), median=percentile(seconds, 0.5), p95=percentile(seconds, 0.95), ewma=mean)
