"""What rises against its own baseline: counts in, bursts out (decision 0014).

A window is compared with the same hours of the days before, so the rhythm of day and week is part of what is expected.
How much ordinary mentions clump (a story is seldom told once) is measured on all subjects and not assumed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

BASELINE_DAYS = 28
WEEK = 7
DAY = timedelta(days=1)
PER_CHANNEL = 2  # tellings of one channel that count: who repeats himself is one voice
LEAST_DAYS = 2  # of history, to say anything at all
LEAST_CHANNELS = 3  # independent ones
LEAST_MENTIONS = 4
LEAST_LIFT = 2.0
LEAST_SCORE = 2.0  # chance alone makes one of these in a hundred looks
LEAST_ALONE = 3.0  # where nothing else rises with it
TOPIC_ALONE = 8.0  # and it is a topic: "economy" says little
PRIOR = 1.0  # mentions that every subject is given for its past
PRIOR_CLUMPS = 20.0  # mentions of its own from which on a subject's clumping counts more than that of its like
PRIOR_LIKE = 100.0  # mentions of its like from which on they count more than all subjects together
RARE = 3  # the highest level of subjects that were told of a few times only
TRIMMED = 0.1  # of a subject's days that may have been bursts before
SHARED = 0.3  # of the posts of the smaller of two bursts: then they are one event
PAUSE = timedelta(days=2)  # an event that is not told for so long is over
_NEGLIGIBLE = 1e-12


class Kind(StrEnum):
    """What sort of thing is told of."""

    TOPIC = "topic"
    ENTITY = "entity"
    PHRASE = "phrase"
    EVENT = "event"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """A topic by its key, an entity by its name, a phrase as it is, an event by its headline."""

    kind: Kind
    key: str


@dataclass(frozen=True, slots=True)
class Window:
    """The time that is looked at: all before its end, as far back as it is long. At most a day."""

    end: datetime
    length: timedelta = DAY

    @property
    def start(self) -> datetime:
        return self.end - self.length


@dataclass(frozen=True, slots=True)
class Series:
    """How often a subject was told of: in the window, and in the same hours one, two, … days before."""

    subject: Subject
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Of subjects together: the squares of what their counts were off their means, and all their mentions."""

    squares: float
    mentions: int


@dataclass(frozen=True, slots=True)
class Background:
    """What is ordinary: all tellings in each of the windows, and how mentions clump by how common a subject is."""

    totals: tuple[int, ...]
    subjects: int  # in the window: so many chances for a false alarm
    spread: Mapping[int, Spread]  # by `level`

    @property
    def days(self) -> int:
        """Of the past that there is."""
        return sum(total > 0 for total in self.totals[1:])

    @property
    def reach(self) -> int:
        """How many days back the past begins."""
        return max((back for back, total in enumerate(self.totals) if total), default=0)

    def clumps(self, mentions: int) -> float:
        """Of subjects that were about as common; of rare ones for one that was never told of."""
        own = level(mentions)
        near = [found for at, found in self.spread.items() if abs(at - own) <= 1 or (not own and at <= RARE)]
        squares, total = sum(found.squares for found in near), sum(found.mentions for found in near)
        # Where there are few like it, they may all be the same event.
        everything = sum(found.mentions for found in self.spread.values())
        usual = sum(found.squares for found in self.spread.values()) / everything if everything else 1.0
        return (squares + PRIOR_LIKE * usual) / (total + PRIOR_LIKE)


@dataclass(frozen=True, slots=True)
class Burst:
    """A subject that rises. A score of 2: chance alone makes one such in a hundred looks."""

    subject: Subject
    score: float
    mentions: int
    expected: float
    counts: tuple[int, ...]

    @property
    def lift(self) -> float:
        return self.mentions / self.expected


@dataclass(frozen=True, slots=True)
class Telling:
    """A post about a subject. Copies and forwards of one text have one source."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    source: UUID  # the post that said it first, as far as is known


@dataclass(frozen=True, slots=True)
class Voices:
    """Tellings with copies and repetitions taken away."""

    mentions: int
    channels: int


@dataclass(frozen=True, slots=True)
class Trend:
    """Bursts of one event: the strongest, and those that share its posts."""

    main: Burst
    others: tuple[Burst, ...]
    tellings: tuple[Telling, ...]  # in the order of time
    channels: int  # independent ones

    @property
    def subjects(self) -> tuple[Subject, ...]:
        return tuple(burst.subject for burst in (self.main, *self.others))

    @property
    def posts(self) -> frozenset[UUID]:
        return frozenset(telling.post_id for telling in self.tellings)

    @property
    def names(self) -> int:
        """Different ones: an entity may be a tag as well."""
        return len({subject.key.casefold() for subject in self.subjects})


@dataclass(frozen=True, slots=True)
class Known:
    """An event that was found before."""

    id: UUID
    subjects: frozenset[Subject]
    posts: frozenset[UUID]
    last_at: datetime


def level(mentions: int) -> int:
    """Subjects about as common as each other have the same."""
    return mentions.bit_length()


def expected(counts: Sequence[int], totals: Sequence[int]) -> float:
    """By the subject's share of all that was told, and by the same weekday; the larger, so that neither surprises."""
    told = sum(totals[1:])
    base = (sum(counts[1:]) + PRIOR) / told * totals[0]
    weekdays = [back for back in range(WEEK, len(totals), WEEK) if totals[back]]
    days = sum(totals[back] for back in weekdays) / totals[0]
    same = (sum(counts[back] for back in weekdays) + base) / (days + 1)
    return max(base, same)


def clumping(counts: Sequence[int], background: Background) -> float:
    """The variance of counts over their mean: 1 would be mentions that know nothing of each other."""
    own = sum(counts[1:])
    like = background.clumps(own)
    told = sum(background.totals[1:])
    days = [
        (count - own * total / told) ** 2
        for count, total in zip(counts[1:], background.totals[1:], strict=True)
        if total
    ]
    kept = sorted(days)[: math.ceil(len(days) * (1 - TRIMMED))]
    spread = sum(kept) / len(kept) * len(days) / own if own else like
    return max(1.0, (own * spread + PRIOR_CLUMPS * like) / (own + PRIOR_CLUMPS))


def tail(count: int, mean: float, clumps: float) -> float:
    """The chance of so many or more, by a negative binomial with this mean and this ratio of variance to mean."""
    clumps = max(clumps, 1.001)
    share = (clumps - 1) / clumps
    size = mean / (clumps - 1)
    term = math.exp(
        math.lgamma(count + size) - math.lgamma(size) - math.lgamma(count + 1)
        + size * math.log(1 - share) + count * math.log(share)
    )  # fmt: skip
    total, at = 0.0, count
    while term > 0:
        total += term
        step = (at + size) / (at + 1) * share
        if step < 1 and term * step / (1 - step) < total * _NEGLIGIBLE:
            break
        term *= step
        at += 1
    return min(1.0, total)


def judge(
    series: Series, background: Background, *, least_score: float = LEAST_SCORE, least_mentions: int = LEAST_MENTIONS
) -> Burst | None:
    """Whether it is a burst; None also while there is too little past to tell."""
    count = series.counts[0]
    if count < least_mentions or background.days < LEAST_DAYS or not background.totals[0]:
        return None
    mean = expected(series.counts, background.totals)
    if count < LEAST_LIFT * mean:
        return None
    # The mean is known from a few days only, and is as uncertain as they are few.
    clumps = clumping(series.counts, background) * (1 + 1 / background.days)
    chance = tail(count, mean, clumps) * max(1, background.subjects)
    score = -math.log10(max(chance, 1e-99))
    return Burst(series.subject, score, count, mean, series.counts) if score >= least_score else None


def voices(tellings: Iterable[Telling]) -> Voices:
    """Who tells it by himself: copies count for the channel of the first of them, and no channel counts much."""
    firsts: dict[UUID, Telling] = {}
    for telling in in_order(tellings):
        firsts.setdefault(telling.source, telling)
    by_channel: dict[int, int] = defaultdict(int)
    for telling in firsts.values():
        by_channel[telling.channel_id] += 1
    return Voices(sum(min(count, PER_CHANNEL) for count in by_channel.values()), len(by_channel))


def confirm(
    burst: Burst, tellings: Sequence[Telling], background: Background, *, least_score: float = LEAST_SCORE
) -> Burst | None:
    """Judged again by what is left of it without copies."""
    heard = voices(tellings)
    if heard.channels < LEAST_CHANNELS:
        return None
    counts = (heard.mentions, *burst.counts[1:])
    return judge(Series(burst.subject, counts), background, least_score=least_score)


def gather(found: Iterable[tuple[Burst, Sequence[Telling]]], *, least_alone: float = LEAST_ALONE) -> list[Trend]:
    """One trend for one event, the strongest first: bursts that share posts are the same.

    Chance lifts one name at a time; an event lifts several. So a name that rises alone has to rise more.
    """
    trends: list[Trend] = []
    for burst, tellings in sorted(found, key=_order):
        posts = frozenset(telling.post_id for telling in tellings)
        same = next((place for place, trend in enumerate(trends) if _overlap(posts, trend.posts)), None)
        if same is None:
            trends.append(Trend(burst, (), tuple(in_order(tellings)), voices(tellings).channels))
        else:
            trends[same] = _joined(trends[same], burst, tellings)
    return [trend for trend in trends if _is_told_of(trend, least_alone)]


def _is_told_of(trend: Trend, least_alone: float) -> bool:
    if all(subject.kind is Kind.TOPIC for subject in trend.subjects):
        return trend.main.score >= TOPIC_ALONE
    return trend.main.score >= least_alone or trend.names > 1 or _is_event(trend.main)


def _order(one: tuple[Burst, Sequence[Telling]]) -> tuple[bool, float, Subject]:
    """An event is named by its headline; what rises with it only adds names."""
    return not _is_event(one[0]), -one[0].score, one[0].subject


def _is_event(burst: Burst) -> bool:
    return burst.subject.kind is Kind.EVENT


def _joined(trend: Trend, burst: Burst, tellings: Sequence[Telling]) -> Trend:
    """Topics and names are wider than an event: they bring their name, and no posts."""
    told = trend.tellings
    if burst.subject.kind is not Kind.TOPIC and not _is_event(trend.main):
        told = tuple(in_order({telling.post_id: telling for telling in (*told, *tellings)}.values()))
    return Trend(trend.main, (*trend.others, burst), told, voices(told).channels)


def told_before(trend: Trend, known: Iterable[Known], since: datetime) -> Known | None:
    """The event that this one goes on with: about the same, and never silent for long. `since`: the window's start."""
    named = {subject for subject in trend.subjects if subject.kind is not Kind.TOPIC} or set(trend.subjects)
    going_on = [event for event in known if event.last_at >= since - PAUSE]
    alike = [one for one in going_on if _overlap(trend.posts, one.posts) or not named.isdisjoint(one.subjects)]
    return max(alike, key=lambda event: (len(trend.posts & event.posts), event.last_at), default=None)


def _overlap(one: frozenset[UUID], other: frozenset[UUID]) -> bool:
    return bool(one and other) and len(one & other) >= SHARED * min(len(one), len(other))


def in_order(tellings: Iterable[Telling]) -> list[Telling]:
    return sorted(tellings, key=lambda telling: (telling.posted_at, telling.post_id))
