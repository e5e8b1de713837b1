"""Looking for trends without a database: the counts that PostgreSQL makes, made here from a list of posts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from bench.trend_worlds import Told
from telegram_assistant.domain.trends import (
    BASELINE_DAYS,
    DAY,
    LEAST_ALONE,
    LEAST_SCORE,
    PER_CHANNEL,
    Background,
    Known,
    Series,
    Spread,
    Subject,
    Telling,
    Trend,
    Window,
    confirm,
    gather,
    judge,
    level,
    told_before,
)


class Looker:
    """Over one list of posts, in the order of time."""

    def __init__(self, posts: Sequence[Told]) -> None:
        self._posts = posts
        self._times = [post.posted_at for post in posts]

    def look(self, window: Window, *, more: float = 0.0) -> list[Trend]:
        least_score = LEAST_SCORE + more
        series, background = self._count(window)
        rising = [burst for one in series if (burst := judge(one, background, least_score=least_score))]
        told = self._tellings(window, {burst.subject for burst in rising})
        found = [
            (sure, told[burst.subject])
            for burst in rising
            if (sure := confirm(burst, told[burst.subject], background, least_score=least_score))
        ]
        return gather(found, least_alone=LEAST_ALONE + more)

    def _between(self, start: datetime, end: datetime) -> Sequence[Told]:
        return self._posts[bisect_left(self._times, start) : bisect_left(self._times, end)]

    def _windows(self, window: Window) -> Iterator[tuple[int, Told]]:
        """What was told in each of the windows, copies once."""
        for back in range(BASELINE_DAYS + 1):
            seen: set[UUID] = set()
            for post in self._between(window.start - back * DAY, window.end - back * DAY):
                if post.source not in seen:
                    seen.add(post.source)
                    yield back, post

    def _count(self, window: Window) -> tuple[list[Series], Background]:
        totals = [0] * (BASELINE_DAYS + 1)
        told: dict[Subject, Counter[tuple[int, int]]] = defaultdict(Counter)
        for back, post in self._windows(window):
            totals[back] += 1
            for subject in post.subjects:
                told[subject][back, post.channel_id] += 1
        series = [Series(subject, _voices(found)) for subject, found in told.items()]
        background = Background(tuple(totals), sum(one.counts[0] > 0 for one in series), _spread(series, totals))
        return series, background

    def _tellings(self, window: Window, subjects: Collection[Subject]) -> dict[Subject, list[Telling]]:
        found: dict[Subject, list[Telling]] = defaultdict(list)
        for post in self._between(window.start, window.end):
            for subject in post.subjects & set(subjects):
                found[subject].append(Telling(post.post_id, post.channel_id, post.posted_at, post.source))
        return found


@dataclass
class Memory:
    """Events that were found, as the table keeps them."""

    known: list[Known] = field(default_factory=list)

    def new(self, found: Sequence[Trend], window: Window) -> list[Trend]:
        """Those that were not told before."""
        new = []
        for trend in found:
            event = told_before(trend, self.known, window.start)
            subjects, posts, last_at = frozenset(trend.subjects), trend.posts, trend.tellings[-1].posted_at
            if event is None:
                new.append(trend)
            else:
                self.known.remove(event)
                subjects, posts, last_at = subjects | event.subjects, posts | event.posts, max(last_at, event.last_at)
            self.known.append(Known(event.id if event else uuid4(), subjects, posts, last_at))
        return new


def _voices(found: Counter[tuple[int, int]]) -> tuple[int, ...]:
    counts = [0] * (BASELINE_DAYS + 1)
    for (back, _), told in found.items():
        counts[back] += min(told, PER_CHANNEL)
    return tuple(counts)


def _spread(series: Sequence[Series], totals: Sequence[int]) -> dict[int, Spread]:
    told = sum(totals[1:]) or 1
    found: dict[int, Spread] = {}
    for one in series:
        own = sum(one.counts[1:])
        if own:
            days = zip(one.counts[1:], totals[1:], strict=True)
            squares = sum((count - own * total / told) ** 2 for count, total in days if total)
            before = found.get(level(own), Spread(0.0, 0))
            found[level(own)] = Spread(before.squares + squares, before.mentions + own)
    return found
