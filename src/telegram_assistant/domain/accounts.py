"""Telegram accounts: each has one process, and every process its fair share; how fast each may ask, who goes first, and
how long it will take.

Telegram publishes no figures. These stay below what is known to be answered with FLOOD_WAIT: about one page of history
a second, and about two hundred usernames a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum
from math import inf


@dataclass(frozen=True, slots=True)
class Share:
    """What a process is to do now."""

    keep: tuple[str, ...]
    take: tuple[str, ...]
    give: tuple[str, ...]  # to others who have too few


@dataclass(frozen=True, slots=True)
class Reach:
    """Which channels a process can read now: an account that was told a channel's hash, or one that may ask for it."""

    knowing: tuple[str, ...] = ()  # accounts of ours that may ask for pages now
    asking: bool = False  # whether one of them may look usernames up
    elsewhere: tuple[str, ...] = ()  # accounts that other processes read with
    living: tuple[str, ...] = ()  # all accounts that can be used, in all processes

    @property
    def stands_by(self) -> bool:
        """Others have all accounts that there are."""
        return bool(self.living) and len(self.elsewhere) == len(self.living)


def share(holders: Mapping[str, str | None], processes: Collection[str], me: str) -> Share:
    """`holders`: of each account that can be used the process that has it, None where none has.

    All who ask take turns, so a process that gives one up leaves it for the next. Nothing moves while the shares
    differ by one at most: a move costs an interruption.
    """
    everyone = {me, *processes}
    held = Counter(holder for holder in holders.values() if holder in everyone)
    mine = [account for account, holder in holders.items() if holder == me]
    free = [account for account, holder in holders.items() if holder not in everyone]
    least, rest = divmod(len(holders), len(everyone))
    most = least + bool(rest)
    missing = sum(max(0, least - held[other]) for other in everyone - {me})
    # Those below their share go first: beyond the least share, take only what they leave.
    room = max(0, least - len(mine)) + max(0, min(len(free) - missing, most - max(least, len(mine))))
    take = free[:room]
    surplus = min(len(mine) - least, max(len(mine) - most, missing - len(free)))
    give = mine[len(mine) - max(0, surplus) :]
    return Share(tuple(account for account in mine if account not in give), tuple(take), tuple(give))


class Priority(IntEnum):
    """Who goes first when several wait for the same account."""

    LIVE = 0
    VISIT = 1
    REFRESH = 2
    BACKFILL = 3


# Seconds by which a request lets more urgent ones pass. Finite, so that nothing waits for ever.
COURTESY: Mapping[Priority, float] = {
    Priority.LIVE: 0.0,
    Priority.VISIT: 30.0,
    Priority.REFRESH: 120.0,
    Priority.BACKFILL: 300.0,
}


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` requests at once, and from then on one every `interval` seconds."""

    interval: float
    burst: int = 1

    def __post_init__(self) -> None:
        if not (self.interval > 0 and self.burst >= 1):
            raise ValueError(f"a rate needs interval > 0 and burst >= 1: {self!r}")


# All limits of a method hold at once.
LIMITS: Mapping[str, tuple[Rate, ...]] = {
    "messages.getHistory": (Rate(1.0, 20),),
    "invokeWithTakeout(messages.getHistory)": (Rate(0.2, 20),),
    "messages.getReplies": (Rate(1.0, 10),),
    "channels.getMessages": (Rate(1.5, 10),),
    "channels.getFullChannel": (Rate(5.0, 5), Rate(60.0, 100)),
    "contacts.resolveUsername": (Rate(3.0, 5), Rate(600.0, 50)),
    "messages.checkChatInvite": (Rate(10.0, 3), Rate(600.0, 20)),
    "updates.getChannelDifference": (Rate(1.0, 20),),
    "upload.getFile": (Rate(0.1, 30),),
}
OTHER: tuple[Rate, ...] = (Rate(1.0, 10),)
# What connecting costs, and what keeps updates flowing: a wait there breaks more than it saves.
UNPACED_TOPICS = frozenset({"auth", "help", "updates"})

WARM_UP = timedelta(days=3)
WARM_UP_FACTOR = 2.0


def limits_of(method: str) -> tuple[Rate, ...]:
    """The limits of a method; none for what must not wait."""
    if method not in LIMITS and method.partition(".")[0] in UNPACED_TOPICS:
        return ()
    return LIMITS.get(method, OTHER)


def warm_up(age: timedelta) -> float:
    """By what factor an account that logged in `age` ago is slower: 2 at first, 1 after three days."""
    done = min(max(age / WARM_UP, 0.0), 1.0)
    return WARM_UP_FACTOR - (WARM_UP_FACTOR - 1.0) * done


def rank(priority: Priority, arrived: float) -> float:
    """The lowest goes first. It never changes while a request waits, so later requests cannot starve it."""
    return arrived + COURTESY[priority]


@dataclass(frozen=True, slots=True)
class Pace:
    """Where one method of one account stands. Times are seconds of any clock that never goes back."""

    limits: tuple[Rate, ...]
    marks: tuple[float, ...]  # for each limit, when it will have recovered from all that was asked

    @classmethod
    def for_method(cls, method: str) -> Pace:
        """A method that was not asked yet."""
        limits = limits_of(method)
        return cls(limits, (-inf,) * len(limits))

    def next_allowed(self, now: float, *, ahead: int = 0, slower: float = 1.0) -> float:
        """When a request may be made that has `ahead` others before it: `now` or later."""
        moment = now
        for rate, mark in zip(self.limits, self.marks, strict=True):
            moment = max(moment, max(mark, now) + (ahead - rate.burst + 1) * rate.interval * slower)
        return moment

    def expected_wait(self, now: float, *, ahead: int = 0, slower: float = 1.0) -> float:
        """Seconds until then."""
        return self.next_allowed(now, ahead=ahead, slower=slower) - now

    def asked(self, now: float, *, slower: float = 1.0) -> Pace:
        """After a request was made."""
        marks = zip(self.limits, self.marks, strict=True)
        return replace(self, marks=tuple(max(mark, now) + rate.interval * slower for rate, mark in marks))
