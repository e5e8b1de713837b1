"""Silence as an alarm, replayed over arrival times: how soon a rule notices that posts are missing, how often in vain.

The rules are the product's own functions. A look is in vain when the channel was just silent. What is missed begins
with a post from which on nothing of the channel is seen any more; the delay is from that post to the next look.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bench.replay import percentile
from telegram_assistant.domain.silence import MIN_INTERVALS, MIN_THRESHOLD, quiet_hours, threshold
from telegram_assistant.ingest.silence import JOB_TTL

DAY = 86_400.0
TICK = 300.0
WINDOW = 14 * DAY
BLIND_EVERY = 2  # from every second post on nothing is seen
LONGEST_BLIND = 10 * DAY


@dataclass
class Alarms:
    """What a rule did on some channels."""

    channel_days: float = 0.0
    in_vain: int = 0
    in_quiet_hours: int = 0  # of those
    delays: list[float] = field(default_factory=list)

    @property
    def a_day(self) -> float:
        """Looks in vain per channel and day."""
        return self.in_vain / self.channel_days

    @property
    def mean(self) -> float:
        return sum(self.delays) / len(self.delays)

    @property
    def p95(self) -> float:
        return percentile(self.delays, 0.95)


def replay(arrivals: Sequence[float], begin: float, end: float, into: Alarms, *, adaptive: bool) -> None:
    """One channel: what came before `begin` is only learned from."""
    into.channel_days += (end - begin) / DAY
    for number, (last, following, p95) in enumerate(_silences(arrivals, begin, end)):
        for look in _looks(last, following, p95, adaptive=adaptive):
            into.in_vain += 1
            into.in_quiet_hours += quiet_hours(_moment(look)).quiet
        if number % BLIND_EVERY == 0:
            seen_again = (look for look in _looks(last, following + LONGEST_BLIND, p95, adaptive=adaptive))
            found = next((look for look in seen_again if look >= following), following + LONGEST_BLIND)
            into.delays.append(found - following)


def _silences(arrivals: Sequence[float], begin: float, end: float) -> Iterator[tuple[float, float, float | None]]:
    """Each post of the time that is tested, the one after it, and the p95 of the intervals that were known then."""
    known: list[float] = []  # the intervals of the window, sorted
    oldest = 1
    for number in range(1, len(arrivals) - 1):
        insort(known, arrivals[number] - arrivals[number - 1])
        while arrivals[oldest - 1] < arrivals[number] - WINDOW:
            known.pop(bisect_left(known, arrivals[oldest] - arrivals[oldest - 1]))
            oldest += 1
        if begin <= arrivals[number] and arrivals[number + 1] <= end:
            p95 = percentile(known, 0.95) if len(known) >= MIN_INTERVALS else None
            yield arrivals[number], arrivals[number + 1], p95


def _looks(last: float, until: float, p95: float | None, *, adaptive: bool) -> Iterator[float]:
    """The ticks at which a rule looks while nothing comes: once a day for one silence (SPEC 3.6)."""
    tick = (last + MIN_THRESHOLD.total_seconds()) // TICK * TICK
    while tick < until:
        if tick - last > threshold(p95, _moment(tick), adaptive=adaptive).total_seconds():
            yield tick
            tick += JOB_TTL.total_seconds()
        else:
            tick += TICK


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
