"""When a channel posts: by its temper, a pure stream of moments that can be drawn for ever or up to an end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import exp, inf
from random import Random

HOUR = 3600
WEEK = 168  # hours
MOSCOW = 3 * HOUR  # ahead of UTC, the whole year
MONDAY = 4 * 24 * HOUR  # the epoch was a Thursday, and this many seconds later it was Monday
LIVES = 0.25  # a dead channel posted in this first part of the time only


@dataclass(slots=True, frozen=True)
class Temper:
    """How the rate runs through the week, and how much one post calls for others."""

    profile: tuple[float, ...]  # by hour of the week in Moscow from Monday 0:00, 1 on average
    excitement: float = 0.0  # mean number of posts that each post brings about
    decay: float = 900.0  # seconds in which that calms down


def _profile(hours: tuple[float, ...], weekend: float = 1.0) -> tuple[float, ...]:
    week = [hours[h] * (weekend if day > 4 else 1.0) for day in range(7) for h in range(24)]
    mean = sum(week) / WEEK
    return tuple(value / mean for value in week)


def _day(night: float, morning: float, noon: float, evening: float) -> tuple[float, ...]:
    """From 0:00, 7:00, 11:00 and 18:00; the last hour before midnight is half."""
    return (night,) * 7 + (morning,) * 4 + (noon,) * 7 + (evening,) * 5 + (evening / 2,)


@cache
def tempers() -> dict[str, Temper]:
    """All tempers by name."""
    return {
        "bursty": Temper(_profile(_day(0.3, 1.0, 1.2, 1.2)), excitement=0.8, decay=600),
        "night_quiet": Temper(_profile(_day(0.02, 0.9, 1.2, 1.1)), excitement=0.2),
        "round_the_clock": Temper(_profile((1.0,) * 24), excitement=0.2),
        "weekday": Temper(_profile(_day(0.02, 1.1, 1.3, 0.4), weekend=0.06)),
        "steady": Temper(_profile(_day(0.6, 1.0, 1.2, 1.1))),
        "dead": Temper(_profile(_day(0.05, 0.9, 1.2, 1.1)), excitement=0.2),
    }


def times(
    seed: int | str, temper: str, rate: float, start: datetime, end: datetime | None = None
) -> Iterator[datetime]:
    """Moments after `start` and before `end` (none: for ever), `rate` a day on average; whole seconds, never backwards.

    A self-exciting point process, drawn by thinning: candidates come at a rate that is never too low,
    and each stays with the probability of the true rate at its moment.
    """
    kind = tempers()[temper]
    if rate <= 0:
        return
    rng = Random(f"{seed}/{temper}")
    last = inf if end is None else end.timestamp()
    if temper == "dead":
        if end is None:
            return
        last = start.timestamp() + LIVES * (last - start.timestamp())
    base = rate / 86_400 * (1.0 - kind.excitement)
    peak = base * max(kind.profile)
    now, excited = start.timestamp(), 0.0
    while True:
        bound = peak + excited
        wait = rng.expovariate(bound)
        now += wait
        if now >= last:
            return
        excited *= exp(-wait / kind.decay)
        hour = int((now + MOSCOW - MONDAY) // HOUR) % WEEK
        if rng.random() * bound < base * kind.profile[hour] + excited:
            excited += kind.excitement / kind.decay
            yield datetime.fromtimestamp(int(now), UTC)
