"""By what factor a channel posts more or less often than on average: by hour, weekday, minute, and time since a post.

The factors come from counts, drawn towards 1 as far as chance explains them: few posts say little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY

AGES = (60.0, 180.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0)  # classes of the time since a post
FLAT = 0.01  # a variance below this is worth no attention: the gain would be a thousandth


@dataclass(frozen=True, slots=True)
class Shape:
    """The factors; without evidence they are 1."""

    hours: Sequence[float] = (1.0,) * 24
    days: Sequence[float] = (1.0,) * 7
    minutes: Sequence[float] | None = None  # None: minutes and seconds say nothing
    onset: float = 1.0  # in the first seconds of a minute,
    rest: float = 1.0  # and in the others
    after: Sequence[float] = (1.0,) * (len(AGES) + 1)
    week: Sequence[float] = field(init=False, repr=False)  # by hour from the epoch, a Thursday, on the local clock
    sums: Sequence[float] = field(init=False, repr=False)  # of the hours before each

    def __post_init__(self) -> None:
        week = [self.hours[hour % 24] * self.days[weekday(hour)] for hour in range(168)]
        object.__setattr__(self, "week", week)
        object.__setattr__(self, "sums", list(accumulate(week, initial=0.0)))

    def at(self, hour: int) -> float:
        """The factor of an hour, counted from the epoch on the local clock."""
        return self.week[hour % 168]

    def between(self, begin: float, end: float) -> float:
        """The seconds from begin to end on the local clock, each times the factor of its hour."""
        return self._until(end) - self._until(begin)

    def _until(self, moment: float) -> float:
        weeks, seconds = divmod(moment, WEEK)
        hour = int(seconds // HOUR)
        return (weeks * self.sums[168] + self.sums[hour]) * HOUR + (seconds - hour * HOUR) * self.week[hour]


def weekday(hour: int) -> int:
    """Of an hour counted from the epoch, which was a Thursday; Monday is 0."""
    return (hour // 24 + 3) % 7


def shrunk(counts: Sequence[float], exposures: Sequence[float], scatter: float = 1.0) -> list[float] | None:
    """Counts beside what an even spread would give, drawn towards 1 (empirical Bayes).

    The variance between the classes is what is left of the squares after `scatter`, the variance of a count beside
    its mean. None when nothing is left: the classes do not differ.
    """
    exposure, total = sum(exposures), sum(counts)
    if exposure <= 0 or total <= 0:
        return None
    even = [total * share / exposure for share in exposures]
    excess = sum((count - mean) ** 2 - scatter * mean for count, mean in zip(counts, even, strict=True))
    variance = excess / sum(mean * mean for mean in even)
    if variance < FLAT:
        return None
    prior = scatter / variance
    return [(count + prior) / (mean + prior) for count, mean in zip(counts, even, strict=True)]
