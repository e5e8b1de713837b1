"""When to look at a channel next: the sooner, the more its posts would wait; a request has one price for all channels.

Posts that come at a rate r and wait until the next look wait r·t²/2 together in a time t. Looking each time that this
reaches the price makes the looks proportional to √r, which is the smallest sum of delays that so many requests can
give; the price (`request_price`) is what makes them as many as the account may make.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.rhythm import (
    AGES,
    DAY,
    HOUR,
    MINUTE,
    ONSET,
    WAKE,
    Rhythm,
    Shape,
    expected_since,
    hours_of,
    learn,
    recent,
    shape_of,
)
from telegram_assistant.domain.silence import MOSCOW

LEAST = 5.0  # seconds between two looks, unless the fixed interval is shorter
FAINT = 0.05  # contagion below this is chance
DOUBLED_BY = 5  # a priority that is so much higher makes posts count twice
MOST_PRIORITY = 50  # beyond this it changes only the order of visits
FIRST_PRICE = 5.0  # seconds of waiting that a request is worth, until the fair price is known,
FIRST_INTERVAL = 300.0  # where there would be one for each channel so often
STEERING = 2.0  # how fast the price answers to a balance of a day's requests
MOST_SAVED = 0.5  # days of requests that may be left for later: a quiet weekend, but no rush after an outage
MOST_OWED = 2.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What was not used of the request budget, in days of it; below zero, what was used too much."""

    days: float = 0.0

    def after(self, seconds: float, requests: int, per_hour: float) -> Allowance:
        """When that much time has passed and that many requests were made."""
        days = self.days + seconds / DAY - requests / (24.0 * per_hour)
        return Allowance(min(MOST_SAVED, max(-MOST_OWED, days)))

    def price(self, fair: float) -> float:
        """The fair price, raised or lowered so that within about a day the budget is met again."""
        return fair * math.exp(-STEERING * self.days)


def first_price(fixed: float) -> float:
    """Where requests may be made twice as often, each is worth a quarter."""
    return FIRST_PRICE * (fixed / FIRST_INTERVAL) ** 2


def new_appetite(fixed: float) -> float:
    """Of a channel that nothing is known of: at the first price it is looked at each fixed interval."""
    return math.sqrt(first_price(fixed)) / fixed


def fair_price(appetites: Sequence[float], per_hour: float, bound: float = 3600.0) -> float:
    """The price at which channels of these appetites make `per_hour` requests together, each at least one per bound.

    If the budget is too small even for that, the price at which all of them wait for the bound.
    """
    if not (per_hour > 0 and bound > 0):
        raise ValueError(f"budget and bound must be positive: {per_hour} an hour, {bound} s")
    if not appetites:
        return FIRST_PRICE
    hungry, rest, root = sorted(appetites, reverse=True), sum(appetites), 0.0
    for bounded in range(len(hungry)):
        # The least hungry are the first to wait for the bound; what they use is not for the others.
        left = per_hour / HOUR - bounded / bound
        if left <= 0:
            break
        root = rest / left
        if hungry[-1 - bounded] / root >= 1.0 / bound:
            return root * root
        rest -= hungry[-1 - bounded]
    return (hungry[0] * bound) ** 2


@dataclass(frozen=True, slots=True)
class PollingRules:
    """Seconds between looks at a channel that nothing is known of, and the longest time between looks at any."""

    fixed: float = 300.0
    bound: float = 3600.0


class Reason(StrEnum):
    """Why a look was planned for then."""

    NEW = "new"
    PRICE = "price"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Plan:
    """A look, in seconds since the epoch, and how many posts it should find."""

    at: float
    waiting: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class Forecast:
    """At what rate a channel should post from now on."""

    shape: Shape
    rate: float  # posts a second, on average over the week
    last: float
    offset: float
    made: float = 0.0  # at this moment,
    called: float = 0.0  # when this many posts a second were called for by those before,
    contagion: float = 0.0  # which calls for so many more in turn
    known: bool = True  # more from its posts than from what we assume of a new channel
    least: float = LEAST

    @classmethod
    def from_rhythm(
        cls,
        rhythm: Rhythm,
        now: float,
        price: float,
        *,
        weight: float = 1.0,
        offset: float = 0.0,
        rules: PollingRules | None = None,
        shape: Shape | None = None,
    ) -> Forecast:
        """A channel without history is given the rate at which the price means the fixed interval."""
        if not (price > 0 and weight > 0):
            raise ValueError(f"price and weight must be positive: {price}, {weight}")
        shape = shape or shape_of(rhythm)
        fixed = (rules or PollingRules()).fixed
        assumed = weight * fixed * fixed / (2.0 * price)  # seconds for one post
        observed = rhythm.seconds + max(0.0, now - rhythm.last)
        rate = (rhythm.posts + 1.0) / (observed + assumed)
        rate *= recent(rhythm, expected_since(rhythm, shape, now, offset))
        contagion = rhythm.contagion if rhythm.posts else 0.0
        called = contagion * rhythm.wake_at(max(0.0, now - rhythm.last)) / WAKE
        known, least = observed >= assumed, min(LEAST, fixed)
        return cls(shape, rate, rhythm.last, offset, now, called, contagion, known=known, least=least)

    def pieces(self, begin: float, end: float) -> Iterator[tuple[float, float, float]]:
        """The time from begin to end in stretches of one rate: from when, until when, posts a second."""
        index = bisect_right(AGES, begin - self.last)
        edge = self.last + AGES[index] if index < len(AGES) else math.inf
        for hour, start, stop in hours_of(begin, end, self.offset):
            usual = self.rate * self.shape.at(hour)
            moment = start
            while moment < stop:
                if moment >= edge:
                    index += 1
                    edge = self.last + AGES[index] if index < len(AGES) else math.inf
                until = min(stop, edge)
                rate = self._excited(usual, moment, until) * self.shape.after[index]
                if self.shape.minutes is None:
                    yield moment, until, rate
                else:
                    yield from self._within_minutes(moment, until, rate)
                moment = until

    def _excited(self, usual: float, begin: float, end: float) -> float:
        """The mean rate from begin to end: what was called for fades into what is usual, unseen calls included."""
        if self.contagion < FAINT:
            return usual
        fading = (1.0 - self.contagion) / WAKE
        left = math.exp(-fading * (begin - self.made)) - math.exp(-fading * (end - self.made))
        return usual + (self.called - self.contagion * usual) * left / (fading * (end - begin))

    def _within_minutes(self, moment: float, end: float, usual: float) -> Iterator[tuple[float, float, float]]:
        minutes = self.shape.minutes or ()
        while moment < end:
            minute = moment // MINUTE
            rate, edge = usual * minutes[int(minute) % 60], minute * MINUTE + ONSET
            if moment < edge:
                rate *= self.shape.onset
            else:
                rate, edge = rate * self.shape.rest, minute * MINUTE + MINUTE
            edge = min(edge, end)
            yield moment, edge, rate
            moment = edge

    def plan(self, now: float, price: float, bound: float) -> Plan:
        """Look when what should have come by then has waited for `price` seconds together, or at the bound."""
        reason = Reason.PRICE if self.known else Reason.NEW
        posts = waited = 0.0
        for begin, end, rate in self.pieces(now, now + bound):
            length = end - begin
            more = posts * length + rate * length * length / 2.0
            if waited + more >= price:
                wait = (math.sqrt(posts * posts + 2.0 * rate * (price - waited)) - posts) / rate
                return Plan(max(begin + wait, now + self.least), posts + rate * wait, reason)
            waited += more
            posts += rate * length
        return Plan(now + bound, posts, Reason.BOUND)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a channel is looked at then."""

    asked: datetime
    at: datetime
    reason: Reason
    waiting: float  # posts it should find
    price: float
    weight: float
    posts_a_day: float
    hour_factor: float
    recent_factor: float
    silence: timedelta | None  # None: no post is known
    silence_factor: float
    minutes: tuple[int, ...]  # on which it posts at least twice as often as on others
    onset_share: float | None  # of its posts that come in the first seconds of a minute, if that is remarkable
    rules: PollingRules

    def sentences(self) -> list[str]:
        """What `tga channels explain` prints, in the zone of `at`. `asked` is the look before."""
        when = f"{_span(self.at - self.asked)} later, at {self.at:%H:%M:%S %Z}"
        said = [f"Looked at {self.asked:%H:%M:%S}; the next look is {when}: {self._because()}."]
        if self.silence is None:
            return [*said, "No post of it is known yet."]
        said.append(
            f"About {self.posts_a_day:.3g} posts a day; on {self.asked:%A} after {self.asked:%H}:00"
            f" {self.hour_factor:.2g} times its average; lately {self.recent_factor:.2g} times what was expected."
        )
        said.append(
            f"Its last post was {_span(self.silence)} before that look; so long after one it posts"
            f" {self.silence_factor:.2g} times as often as on average."
        )
        if self.minutes:
            said.append(f"It likes the minutes {', '.join(f':{minute:02}' for minute in self.minutes)}.")
        if self.onset_share is not None:
            said.append(f"{self.onset_share:.0%} of its posts come in the first {ONSET:.0f} s of a minute.")
        if self.weight != 1.0:
            said.append(f"Its posts count {self.weight:.3g} times because of its priority.")
        return said

    def _because(self) -> str:
        match self.reason:
            case Reason.NEW:
                return f"too little is known of it, so about every {_span(timedelta(seconds=self.rules.fixed))}"
            case Reason.BOUND:
                return f"little is expected, but no channel waits longer than {_span(self.at - self.asked)}"
            case Reason.PRICE:
                return (
                    f"by then {self.waiting:.2g} posts should have come, and have waited {self.price:.2g} s together:"
                    " what a request is worth now"
                )


def weight_of(priority: int) -> float:
    """How much a channel's posts count beside those of one with the priority 0."""
    return math.pow(2.0, max(-MOST_PRIORITY, min(MOST_PRIORITY, priority)) / DOUBLED_BY)


def observe(
    rhythm: Rhythm | None,
    posted: Iterable[datetime],
    now: datetime,
    *,
    since: datetime | None = None,
    zone: tzinfo = MOSCOW,
) -> Rhythm:
    """The rhythm after a visit's new posts. A new channel's is known from `since` on, or from the oldest post.

    Posts of one moment, as an album's are, count once; posts dated in the future do not count.
    """
    moments = sorted(as_utc(post).timestamp() for post in posted if as_utc(post) <= as_utc(now))
    if rhythm is None:
        first = moments[0] if moments else as_utc(now).timestamp()
        rhythm = Rhythm.begin(as_utc(since).timestamp() if since else first)
    return learn(rhythm, moments, _offset(now, zone))


def next_visit(
    rhythm: Rhythm,
    now: datetime,
    price: float,
    *,
    weight: float = 1.0,
    zone: tzinfo = MOSCOW,
    rules: PollingRules | None = None,
) -> datetime:
    """When to look at this channel again, having just looked."""
    rules = rules or PollingRules()
    moment = as_utc(now).timestamp()
    forecast = Forecast.from_rhythm(rhythm, moment, price, weight=weight, offset=_offset(now, zone), rules=rules)
    return datetime.fromtimestamp(forecast.plan(moment, price / weight, rules.bound).at, UTC)


def explain(
    rhythm: Rhythm,
    now: datetime,
    price: float,
    *,
    weight: float = 1.0,
    zone: tzinfo = MOSCOW,
    rules: PollingRules | None = None,
) -> Explanation:
    """The same decision with the values behind it."""
    rules = rules or PollingRules()
    moment, offset, shape = as_utc(now).timestamp(), _offset(now, zone), shape_of(rhythm)
    forecast = Forecast.from_rhythm(rhythm, moment, price, weight=weight, offset=offset, rules=rules, shape=shape)
    plan = forecast.plan(moment, price / weight, rules.bound)
    silence = max(0.0, moment - rhythm.last)
    return Explanation(
        asked=as_utc(now).astimezone(zone),
        at=datetime.fromtimestamp(plan.at, UTC).astimezone(zone),
        reason=plan.reason,
        waiting=plan.waiting,
        price=price / weight,
        weight=weight,
        posts_a_day=forecast.rate * DAY,
        hour_factor=shape.at(int((moment + offset) // HOUR)),
        recent_factor=recent(rhythm, expected_since(rhythm, shape, moment, offset)),
        silence=timedelta(seconds=silence) if rhythm.posts else None,
        silence_factor=shape.after[bisect_right(AGES, silence)],
        minutes=tuple(minute for minute, factor in enumerate(shape.minutes or ()) if factor >= 2.0),
        onset_share=rhythm.onsets / rhythm.posts if shape.onset >= 2.0 else None,
        rules=rules,
    )


def appetite(
    rhythm: Rhythm,
    now: datetime,
    price: float,
    *,
    weight: float = 1.0,
    zone: tzinfo = MOSCOW,
    rules: PollingRules | None = None,
) -> float:
    """Looks a second that a channel would get on average at the price 1; at another, this by the price's root."""
    forecast = Forecast.from_rhythm(
        rhythm, as_utc(now).timestamp(), price, weight=weight, offset=_offset(now, zone), rules=rules
    )
    return appetite_of(forecast, weight)


def appetite_of(forecast: Forecast, weight: float = 1.0) -> float:
    """The same of a forecast."""
    shares = (sum(map(math.sqrt, factors)) / len(factors) for factors in (forecast.shape.hours, forecast.shape.days))
    return math.sqrt(weight * forecast.rate / 2.0) * math.prod(shares)


def _offset(now: datetime, zone: tzinfo) -> float:
    return (as_utc(now).astimezone(zone).utcoffset() or timedelta()).total_seconds()


def _span(length: timedelta) -> str:
    seconds = round(length.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes} min {rest} s" if rest and minutes < 20 else f"{minutes} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"
