"""The rhythm of a channel: what its posts say about when it posts, kept as a few sums that grow with each post.

Moments are seconds since the epoch; `offset` is how far the clocks of the channel's readers are ahead of UTC. What is
learned: posts by hour of the day and by weekday, by minute of the hour (news goes out at half past), in the first
seconds of a minute (when Telegram sends what was scheduled), by the time since the post before (editors keep a
distance), how far one post calls for others (bursts), and how much came lately beside what was expected.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import Any

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY
HALF_LIFE = 28 * DAY  # four of each weekday
ONSET = 5.0  # the first seconds of a minute
WAKE = 900.0  # seconds in which a post's call for others calms down
LATELY = 20.0  # posts that "lately" looks back on
LATELY_PRIOR = 2.0  # posts that it takes to believe in a change
SCATTER_PRIOR = 5.0  # posts that it takes to believe in a scatter other than Poisson's
LEAST_SCATTER = 0.25
MOST_CONTAGION = 0.95
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


def zeros(count: int) -> list[float]:
    return [0.0] * count


@dataclass(slots=True)
class Scatter:
    """How far counts of whole hours (or days) fall from what was expected: 1 for Poisson, more when posts clump."""

    squares: float = 0.0
    expected: float = 0.0
    count: float = 0.0  # of the hour that is not over yet
    due: float = 0.0

    @property
    def ratio(self) -> float:
        return max(LEAST_SCATTER, (self.squares + SCATTER_PRIOR) / (self.expected + SCATTER_PRIOR))

    def close(self) -> None:
        self.squares += (self.count - self.due) ** 2
        self.expected += self.due
        self.count = self.due = 0.0

    def fade(self, factor: float) -> None:
        self.squares *= factor
        self.expected *= factor


@dataclass(slots=True)
class Rhythm:
    """The sums. They change only when posts come, so a visit that finds nothing has nothing to store."""

    last: float  # the newest post, or where the time that we know of begins
    faded: float  # when the sums last lost weight
    posts: float = 0.0
    seconds: float = 0.0
    hours: list[float] = field(default_factory=lambda: zeros(24))
    hour_seconds: list[float] = field(default_factory=lambda: zeros(24))
    days: list[float] = field(default_factory=lambda: zeros(7))
    day_seconds: list[float] = field(default_factory=lambda: zeros(7))
    minutes: list[float] = field(default_factory=lambda: zeros(60))
    onsets: float = 0.0
    after: list[float] = field(default_factory=lambda: zeros(len(AGES) + 1))
    after_expected: list[float] = field(default_factory=lambda: zeros(len(AGES) + 1))
    wake: float = 0.0  # how many posts are still calling for others
    calls: float = 0.0
    answers: float = 0.0  # posts that were likely called for
    lately: float = 0.0
    lately_expected: float = 0.0
    hour_scatter: Scatter = field(default_factory=Scatter)
    day_scatter: Scatter = field(default_factory=Scatter)

    @classmethod
    def begin(cls, since: float) -> Rhythm:
        """A channel of which nothing is known before `since`."""
        return cls(last=since, faded=since)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Rhythm:
        values = dict(stored)
        values["hour_scatter"] = Scatter(**values["hour_scatter"])
        values["day_scatter"] = Scatter(**values["day_scatter"])
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """About 1 KB: more digits would not tell more."""
        return {name: _rounded(value) for name, value in asdict(self).items()}

    def copy(self) -> Rhythm:
        return replace(
            self,
            hours=[*self.hours],
            hour_seconds=[*self.hour_seconds],
            days=[*self.days],
            day_seconds=[*self.day_seconds],
            minutes=[*self.minutes],
            after=[*self.after],
            after_expected=[*self.after_expected],
            hour_scatter=replace(self.hour_scatter),
            day_scatter=replace(self.day_scatter),
        )

    @property
    def usual(self) -> float:
        """Posts a second on average; of the first hours alone nothing is concluded."""
        return self.posts / max(self.seconds, DAY)

    @property
    def contagion(self) -> float:
        """What share of the posts was called for by the posts before; a tenth as long as little is known."""
        return min(MOST_CONTAGION, (self.answers + 0.5) / (self.calls + 5.0))

    def wake_at(self, age: float) -> float:
        """How many posts are still calling for others when the last is so old."""
        return self.wake * math.exp(-age / WAKE)


def shape_of(rhythm: Rhythm) -> Shape:
    """The factors that the sums speak for."""
    flat = Shape()
    minutes = shrunk(rhythm.minutes, [1.0] * 60)
    seconds = [rhythm.onsets, *[(rhythm.posts - rhythm.onsets) / 11] * 11]  # twelve parts of a minute
    onset = shrunk(seconds, [1.0] * 12)
    return Shape(
        hours=shrunk(rhythm.hours, rhythm.hour_seconds, rhythm.hour_scatter.ratio) or flat.hours,
        days=shrunk(rhythm.days, rhythm.day_seconds, rhythm.day_scatter.ratio) or flat.days,
        minutes=minutes or ([1.0] * 60 if onset else None),
        onset=onset[0] if onset else 1.0,
        rest=onset[1] if onset else 1.0,
        after=shrunk(rhythm.after, rhythm.after_expected) or flat.after,
    )


def learn(rhythm: Rhythm, arrivals: Iterable[float], offset: float, shape: Shape | None = None) -> Rhythm:
    """The rhythm after these arrivals, oldest first. What is not newer than the last one is known already."""
    grown = rhythm.copy()
    shape = shape or shape_of(grown)
    for moment in arrivals:
        if moment <= grown.last:
            continue
        due = _pass_time(grown, shape, moment, offset)
        _count(grown, moment, int((moment + offset) // HOUR), due)
        _answer(grown, moment, grown.usual * shape.at(int((moment + offset) // HOUR)))
        grown.last = moment
        if moment - grown.faded > DAY:
            _fade(grown, moment)
            shape = shape_of(grown)
    return grown


def expected_since(rhythm: Rhythm, shape: Shape, moment: float, offset: float) -> float:
    """How many posts there should have been from the last one to a moment."""
    silence = moment - rhythm.last
    if silence <= 0:
        return 0.0
    usual = shape.between(rhythm.last + offset, moment + offset) * rhythm.usual
    return _excited(rhythm, usual, 0.0, silence) * shape.after[bisect_right(AGES, silence)]


def recent(rhythm: Rhythm, due: float = 0.0) -> float:
    """By what factor it has posted more or less of late than expected, when `due` posts more have not come.

    A silence that lasts counts in full: the channel may have ended.
    """
    kept = math.exp(-due / LATELY)
    return (rhythm.lately * kept + LATELY_PRIOR) / (rhythm.lately_expected * kept + due + LATELY_PRIOR)


def hours_of(begin: float, end: float, offset: float) -> Iterator[tuple[int, float, float]]:
    """Each hour of the local clock that a stretch of time touches, from when and until when."""
    while begin < end:
        hour = int((begin + offset) // HOUR)
        edge = min(end, (hour + 1) * HOUR - offset)
        yield hour, begin, edge
        begin = edge


def _excited(rhythm: Rhythm, usual: float, age: float, end: float) -> float:
    """Of so many posts in the usual course of things, how many are expected while the last one ages so."""
    called = rhythm.wake_at(age) - rhythm.wake_at(end)
    return usual + rhythm.contagion * (called - usual)


def _pass_time(rhythm: Rhythm, shape: Shape, until: float, offset: float) -> float:
    """Account for the time from the last post to this one; how many posts were due in it."""
    due = 0.0
    for hour, begin, end in hours_of(rhythm.last, until, offset):
        rate = rhythm.usual * shape.at(hour)
        rhythm.hour_seconds[hour % 24] += end - begin
        rhythm.day_seconds[weekday(hour)] += end - begin
        if rhythm.posts:
            due += _spread(rhythm, shape, begin - rhythm.last, end - rhythm.last, rate)
        over = end + offset >= (hour + 1) * HOUR
        for scatter, hours in ((rhythm.hour_scatter, 1), (rhythm.day_scatter, 24)):
            scatter.due += (end - begin) * rate
            if over and (hour + 1) % hours == 0:
                scatter.close()
    rhythm.seconds += until - rhythm.last
    return due


def _spread(rhythm: Rhythm, shape: Shape, age: float, end: float, rate: float) -> float:
    """Divide what is expected from one age to another between the classes it touches."""
    due = 0.0
    for index in range(bisect_right(AGES, age), len(AGES) + 1):
        edge = min(end, AGES[index]) if index < len(AGES) else end
        expected = _excited(rhythm, (edge - age) * rate, age, edge)
        rhythm.after_expected[index] += expected
        due += expected * shape.after[index]
        age = edge
        if age >= end:
            break
    return due


def _count(rhythm: Rhythm, moment: float, hour: int, due: float) -> None:
    if rhythm.posts:
        rhythm.after[bisect_right(AGES, moment - rhythm.last)] += 1.0
    rhythm.posts += 1.0
    rhythm.hours[hour % 24] += 1.0
    rhythm.days[weekday(hour)] += 1.0
    rhythm.minutes[int(moment // MINUTE) % 60] += 1.0
    rhythm.onsets += moment % MINUTE < ONSET
    rhythm.hour_scatter.count += 1.0
    rhythm.day_scatter.count += 1.0
    kept = math.exp(-due / LATELY)
    rhythm.lately = rhythm.lately * kept + 1.0
    rhythm.lately_expected = rhythm.lately_expected * kept + LATELY * (1.0 - kept)


def _answer(rhythm: Rhythm, moment: float, usual: float) -> None:
    """Was this post called for by those before it, or did it come by itself? By the odds of its moment (EM)."""
    wake = rhythm.wake_at(moment - rhythm.last)
    called = rhythm.contagion * wake / WAKE
    rhythm.answers += called / (called + (1.0 - rhythm.contagion) * usual)
    rhythm.calls += rhythm.wake - wake
    rhythm.wake = wake + 1.0


def _fade(rhythm: Rhythm, moment: float) -> None:
    """The past loses weight, so that a channel may change its habits."""
    factor = 0.5 ** ((moment - rhythm.faded) / HALF_LIFE)
    rhythm.faded = moment
    for name in ("posts", "seconds", "onsets", "calls", "answers"):
        setattr(rhythm, name, getattr(rhythm, name) * factor)
    sums = (rhythm.hours, rhythm.hour_seconds, rhythm.days, rhythm.day_seconds, rhythm.minutes)
    for values in (*sums, rhythm.after, rhythm.after_expected):
        values[:] = [value * factor for value in values]
    rhythm.hour_scatter.fade(factor)
    rhythm.day_scatter.fade(factor)


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 3)
        case list():
            return [round(part, 3) for part in value]
        case _:
            return {name: round(part, 3) for name, part in value.items()}
