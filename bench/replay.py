"""Replays posts of known times through rules that say when to look next, all with the same request budget."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from telegram_assistant.domain.polling import FIRST_PRICE, Allowance, Forecast, PollingRules, appetite_of, fair_price
from telegram_assistant.domain.rhythm import DAY, HOUR, Rhythm, Shape, learn, shape_of

MOSCOW = 3 * HOUR
RULES = PollingRules()
STEER_EVERY = HOUR / 6
PRICE_EVERY = 6 * HOUR


def percentile(values: Sequence[float], fraction: float) -> float:
    """Interpolated, as PostgreSQL's `percentile_cont` does."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    return low + (position - math.floor(position)) * (high - low)


@dataclass(frozen=True, slots=True)
class Trial:
    """Channels with the moments of their posts. What comes before `begin` may be learned from; from then on a rule
    knows only what its looks have found, and after a day in which the price settles, delays and requests count."""

    name: str
    channels: Sequence[Sequence[float]]
    start: float
    end: float

    @property
    def begin(self) -> float:
        return self.start - DAY

    def past(self, channel: int) -> Sequence[float]:
        posts = self.channels[channel]
        return posts[: bisect_left(posts, self.begin)]

    def since(self, channel: int) -> float:
        """From when on a channel is known."""
        posts = self.channels[channel]
        return min(posts[0], self.begin - HOUR) if posts else self.begin - HOUR

    @property
    def measured(self) -> int:
        return sum(bisect_right(posts, self.end) - bisect_left(posts, self.start) for posts in self.channels)


@dataclass(slots=True)
class Result:
    """Delays in seconds between a post and the look that found it, and what it cost."""

    delays: list[float] = field(default_factory=list)
    requests: int = 0
    allowed: float = 0.0
    hourly: dict[int, int] = field(default_factory=dict)

    def count_request(self, now: float) -> None:
        self.requests += 1
        hour = int(now // HOUR)
        self.hourly[hour] = self.hourly.get(hour, 0) + 1

    @property
    def mean(self) -> float:
        return sum(self.delays) / len(self.delays)

    @property
    def p95(self) -> float:
        return percentile(self.delays, 0.95)

    @property
    def used(self) -> float:
        return self.requests / self.allowed

    @property
    def peak(self) -> float:
        """Requests of the busiest hour beside the mean hour."""
        return max(self.hourly.values()) * len(self.hourly) / self.requests


class Policy(Protocol):
    """A rule. Whatever the price means to it, requests must grow as one over its root."""

    def fair(self, now: float, per_hour: float) -> float: ...

    def next(self, channel: int, now: float, price: float) -> float: ...

    def found(self, channel: int, posts: Sequence[float]) -> None: ...


class Steering:
    """The price over time, so that all looks together stay within the budget."""

    def __init__(self, policy: Policy, begin: float, per_hour: float) -> None:
        self._policy, self._per_hour = policy, per_hour
        self._allowance, self._used = Allowance(), 0
        self._steer_at, self._price_at = begin + STEER_EVERY, begin + PRICE_EVERY
        self._fair = self._price = policy.fair(begin, per_hour)

    def price(self, now: float) -> float:
        """For the look that is made now."""
        if now >= self._steer_at:
            self._allowance = self._allowance.after(STEER_EVERY, self._used, self._per_hour)
            self._used, self._steer_at = 0, self._steer_at + STEER_EVERY
            if now >= self._price_at:
                self._fair, self._price_at = self._policy.fair(now, self._per_hour), self._price_at + PRICE_EVERY
            self._price = self._allowance.price(self._fair)
        self._used += 1
        return self._price


def replay(trial: Trial, policy: Policy, interval: float) -> Result:
    """Look at each channel when the rule says so; the price is steered so that the budget is that of the interval."""
    count = len(trial.channels)
    per_hour = count * HOUR / interval
    result = Result(allowed=per_hour * (trial.end - trial.start) / HOUR)
    queue = [(trial.begin + interval * number / count, number) for number in range(count)]
    seen = [bisect_left(posts, trial.begin) for posts in trial.channels]
    steering = Steering(policy, trial.begin, per_hour)
    while queue:
        now, channel = heapq.heappop(queue)
        price = steering.price(now)
        if trial.start <= now < trial.end:
            result.count_request(now)
        known, posts = seen[channel], trial.channels[channel]
        seen[channel] = bisect_right(posts, now, known)
        if found := posts[known : seen[channel]]:
            policy.found(channel, found)
            result.delays += [now - post for post in found if trial.start <= post < trial.end]
        if now < trial.end:
            heapq.heappush(queue, (policy.next(channel, now, price), channel))
    return result


def fixed(trial: Trial, interval: float, phases: int = 20) -> Result:
    """The same for every channel; averaged over phases, since some of them meet a channel's habits by chance."""
    result = Result(allowed=len(trial.channels) * (trial.end - trial.start) / interval)
    result.requests = round(result.allowed)
    for posts in trial.channels:
        measured = posts[bisect_left(posts, trial.start) : bisect_left(posts, trial.end)]
        for phase in range(phases):
            result.delays += [-(post + interval * phase / phases) % interval for post in measured]
    return result


class ByRate:
    """Looks by the square root of a channel's rate."""

    def __init__(self, trial: Trial) -> None:
        self._posts = [float(len(trial.past(channel))) for channel in range(len(trial.channels))]
        self._since = [trial.since(channel) for channel in range(len(trial.channels))]

    def _rate(self, channel: int, now: float) -> float:
        return (self._posts[channel] + 1.0) / (now - self._since[channel])

    def fair(self, now: float, per_hour: float) -> float:
        rates = (self._rate(channel, now) for channel in range(len(self._posts)))
        return fair_price([math.sqrt(rate / 2.0) for rate in rates], per_hour, RULES.bound)

    def next(self, channel: int, now: float, price: float) -> float:
        return now + min(RULES.bound, math.sqrt(2.0 * price / self._rate(channel, now)))

    def found(self, channel: int, posts: Sequence[float]) -> None:
        self._posts[channel] += len(posts)


class ByHour:
    """A Poisson rate for each hour of the day, and the same rule of waiting as ours."""

    def __init__(self, trial: Trial) -> None:
        self._counts = [[0.5] * 24 for _ in trial.channels]
        self._since = [trial.since(channel) for channel in range(len(trial.channels))]
        self._shapes = [Shape()] * len(trial.channels)
        for channel in range(len(trial.channels)):
            self.found(channel, trial.past(channel))

    def _forecast(self, channel: int, now: float) -> Forecast:
        rate = sum(self._counts[channel]) / (now - self._since[channel])
        return Forecast(self._shapes[channel], rate, 0.0, MOSCOW)

    def fair(self, now: float, per_hour: float) -> float:
        appetites = [appetite_of(self._forecast(channel, now)) for channel in range(len(self._counts))]
        return fair_price(appetites, per_hour, RULES.bound)

    def next(self, channel: int, now: float, price: float) -> float:
        return self._forecast(channel, now).plan(now, price, RULES.bound).at

    def found(self, channel: int, posts: Sequence[float]) -> None:
        counts = self._counts[channel]
        for post in posts:
            counts[int((post + MOSCOW) // HOUR) % 24] += 1.0
        mean = sum(counts) / 24
        self._shapes[channel] = Shape(hours=[count / mean for count in counts])


class ByAge:
    """The rule of web crawlers: come back after a part of the time for which nothing has changed."""

    LEAST = 30.0

    def __init__(self, trial: Trial) -> None:
        self._pasts = [trial.past(channel) for channel in range(len(trial.channels))]
        self._last = [past[-1] if past else trial.begin - DAY for past in self._pasts]
        self._fair: float | None = None

    def fair(self, now: float, per_hour: float) -> float:
        """By trial on the day before; then the steering does the rest."""
        if self._fair is None:
            low, high = 1e-6, 1e2
            while high > 1.05 * low:
                self._fair = math.sqrt(low * high)
                if self._requests(now - DAY, now, self._fair) > 24 * per_hour:
                    low = self._fair
                else:
                    high = self._fair
        return self._fair or 1.0

    def _requests(self, begin: float, end: float, price: float) -> float:
        sample = self._pasts[:: max(1, len(self._pasts) // 100)]
        requests = 0
        for posts in sample:
            now = begin
            while now < end:
                requests += 1
                known = bisect_right(posts, now)
                now = self._after(now, posts[known - 1] if known else begin - DAY, price)
        return requests * len(self._pasts) / len(sample)

    def next(self, channel: int, now: float, price: float) -> float:
        return self._after(now, self._last[channel], price)

    def _after(self, now: float, last: float, price: float) -> float:
        return now + min(RULES.bound, max(self.LEAST, math.sqrt(price) * (now - last)))

    def found(self, channel: int, posts: Sequence[float]) -> None:
        self._last[channel] = posts[-1]


class Learned:
    """Ours."""

    def __init__(self, trial: Trial) -> None:
        channels = range(len(trial.channels))
        self._rhythms = [learn(Rhythm.begin(trial.since(channel)), trial.past(channel), MOSCOW) for channel in channels]
        self._shapes = [shape_of(rhythm) for rhythm in self._rhythms]

    def _forecast(self, channel: int, now: float, price: float) -> Forecast:
        return Forecast.from_rhythm(
            self._rhythms[channel], now, price, offset=MOSCOW, shape=self._shapes[channel], rules=RULES
        )

    def fair(self, now: float, per_hour: float) -> float:
        channels = range(len(self._rhythms))
        appetites = [appetite_of(self._forecast(channel, now, FIRST_PRICE)) for channel in channels]
        return fair_price(appetites, per_hour, RULES.bound)

    def next(self, channel: int, now: float, price: float) -> float:
        return self._forecast(channel, now, price).plan(now, price, RULES.bound).at

    def found(self, channel: int, posts: Sequence[float]) -> None:
        before = self._rhythms[channel]
        self._rhythms[channel] = after = learn(before, posts, MOSCOW, self._shapes[channel])
        if after.faded > before.faded or not before.posts:  # a new shape once a day will do
            self._shapes[channel] = shape_of(after)
