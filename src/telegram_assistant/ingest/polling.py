"""Polling that learns: after a visit, when to look again; with a tick, what a request is worth (decision 0007).

The rhythm of a channel is learned from the stored posts, so that it does not matter who captured them, or whether the
process died before it could learn. The price and what is left of the budget stand in Redis, for the next tick.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from redis.asyncio import Redis

from telegram_assistant.config import Settings
from telegram_assistant.domain.accounts import limits_of, warm_up
from telegram_assistant.domain.polling import (
    Allowance,
    Explanation,
    PollingRules,
    Reason,
    appetite,
    explain,
    fair_price,
    first_price,
    new_appetite,
    next_visit,
    observe,
    weight_of,
)
from telegram_assistant.domain.rhythm import Rhythm
from telegram_assistant.domain.silence import zone_of
from telegram_assistant.ingest.account_in_use import READING
from telegram_assistant.log import get_logger
from telegram_assistant.names import POLLING_LOOKS, POLLING_PRICE
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.channels import Channel
from telegram_assistant.stores.postgres.rhythms import Habit, Planned, Rhythms

HOUR = 3600.0
LEARN_FROM = timedelta(days=60)  # older posts would weigh less than a quarter
LEARN_ANEW = timedelta(days=1)  # when the history begins so much earlier than what was learned from
LOOK_COSTS_AT_MOST = 3  # a page of what is recent, one that shows the end, one that counts
SHARE = 0.8  # of what pacing allows: a look may need a second page, and holes are to be filled too

log = get_logger(__name__)


def polling_rules(settings: Settings) -> PollingRules:
    """Who asks for fewer visits than the bound would make gets them."""
    fixed = settings.parser_scheduler_interval_sec
    return PollingRules(fixed=fixed, bound=max(fixed, settings.polling_bound_sec))


@dataclass(frozen=True, slots=True)
class Price:
    """What a request is worth, as the last tick left it."""

    price: float  # seconds of waiting
    per_hour: float = 0.0  # the budget
    days: float = 0.0  # of it, that were not used
    looks: int = 0  # of all processes until then
    at: datetime | None = None


class Capacity:
    """How many requests an hour the accounts may make for looks."""

    def __init__(self, accounts: TelegramAccounts, *, clock: Callable[[], datetime]) -> None:
        self._accounts = accounts
        self._clock = clock

    async def __call__(self) -> float | None:
        """None when no account can read now: then nothing is used, and nothing needs a limit."""
        now = self._clock()
        able = [
            account
            for account in await self._accounts.all()
            if account.status == "active" and account.floods.get(READING, now) <= now
        ]
        interval = max(rate.interval for rate in limits_of(READING))
        return sum(SHARE * HOUR / (interval * warm_up(now - account.created_at)) for account in able) or None


async def unlimited() -> None:
    """The capacity of accounts that are not paced."""
    return


class Polling:
    """One per ingest process. Every process plans what it has visited; the holder of the lock sets the price."""

    def __init__(
        self,
        rhythms: Rhythms,
        redis: Redis,
        *,
        rules: PollingRules,
        clock: Callable[[], datetime],
        capacity: Callable[[], Awaitable[float | None]] = unlimited,
    ) -> None:
        self._rhythms = rhythms
        self._redis = redis
        self._rules = rules
        self._clock = clock
        self._capacity = capacity
        self._first_price = first_price(rules.fixed)

    async def plan(self, channel_id: int, now: datetime, *, requests: int = 1) -> Planned | None:
        """When to look again at a channel that was just looked at; a first time, after the fixed interval."""
        price = await self.count_look(requests)
        habit = await self._rhythms.habit(channel_id, since=now - LEARN_FROM)
        if habit is None:
            return None
        before = known_rhythm(habit.rhythm)
        rhythm, since = await self._learn(channel_id, habit, before, now)
        weight, zone = weight_of(habit.priority), zone_of(habit.timezone)
        if before is None:
            at = now + timedelta(seconds=self._rules.fixed)
        else:
            at = next_visit(rhythm, now, price, weight=weight, zone=zone, rules=self._rules)
        return Planned(
            at=at,
            price=None if before is None else price,
            appetite=appetite(rhythm, now, self._first_price, weight=weight, zone=zone, rules=self._rules),
            rhythm=None if rhythm is before else rhythm.to_json(),
            since=since,
        )

    async def _learn(
        self, channel_id: int, habit: Habit, before: Rhythm | None, now: datetime
    ) -> tuple[Rhythm, datetime]:
        """The rhythm with what is new, and since when it knows the channel; after a backfill it is learned anew."""
        zone, begin = zone_of(habit.timezone), max(habit.oldest or now, now - LEARN_FROM)
        if before is not None and habit.since is not None:
            older = habit.whole and begin < habit.since - LEARN_ANEW
            if not older:
                return (observe(before, habit.arrivals, now, zone=zone) if habit.arrivals else before), habit.since
        arrivals = habit.arrivals
        if habit.rhythm is not None:  # these are only the newest
            arrivals = await self._rhythms.arrivals(channel_id, now - LEARN_FROM)
        return observe(None, arrivals, now, since=begin, zone=zone), begin

    async def count_look(self, requests: int = 1) -> float:
        """So many requests were used; what the next one is worth.

        Many are posts to be fetched, sooner or later: only the first of them are the price of having looked.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            _ = pipe.incrby(POLLING_LOOKS, min(max(1, requests), LOOK_COSTS_AT_MOST))
            _ = pipe.get(POLLING_PRICE)
            _, kept = await pipe.execute()
        return self._decoded(kept).price

    async def reprice(self) -> Price:
        """With every tick: the price at which all channels together use the budget that is left.

        It is written as a whole, from what all processes have used, so two who tick at once do no harm.
        """
        now = self._clock()
        appetites, new = await self._rhythms.appetites()
        kept, looks = await self._redis.mget(POLLING_PRICE, POLLING_LOOKS)
        before, used = self._decoded(kept), int(looks or 0)
        after = await self._after(before, [*appetites, *[new_appetite(self._rules.fixed)] * new], used, now)
        await self._redis.set(POLLING_PRICE, msgspec.json.encode(after))
        return after

    async def _after(self, before: Price, appetites: list[float], looks: int, now: datetime) -> Price:
        per_hour = await self._per_hour(len(appetites))
        allowance = Allowance(before.days)
        if per_hour <= 0:
            return Price(self._first_price, days=allowance.days, looks=looks, at=now)
        if before.at is not None:
            seconds = max(0.0, (now - before.at).total_seconds())
            allowance = allowance.after(seconds, max(0, looks - before.looks), per_hour)
        fair = fair_price(appetites, per_hour, self._rules.bound)
        return Price(allowance.price(fair), per_hour, allowance.days, looks, now)

    async def _per_hour(self, channels: int) -> float:
        """As many requests as the fixed interval would use, if the accounts may make them."""
        wanted = channels * HOUR / self._rules.fixed
        allowed = await self._capacity()
        return wanted if allowed is None else min(wanted, allowed)

    def _decoded(self, kept: str | bytes | None) -> Price:
        return Price(self._first_price) if kept is None else msgspec.json.decode(kept, type=Price)


def known_rhythm(stored: Mapping[str, Any] | None) -> Rhythm | None:
    """One that another version wrote may not be readable: then it is learned anew."""
    if stored is None:
        return None
    try:
        return Rhythm.from_json(stored)
    except (KeyError, TypeError) as exc:
        log.warning("rhythm_not_readable", reason=repr(exc))
        return None


class Why(StrEnum):
    """What decides."""

    PAUSED = "paused"  # it is not looked at
    FAILING = "failing"  # the last visits failed
    GIVEN_UP = "given_up"  # and it is not tried again often
    DUE = "due"  # now
    EVERY_TICK = "every_tick"  # polling that learns is off
    UNPLANNED = "unplanned"
    POSTPONED = "postponed"  # an album may be growing, or the account must wait
    RHYTHM = "rhythm"
    UNREADABLE = "unreadable"  # its rhythm was written by another version


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The next look, and what it follows from."""

    why: Why
    at: datetime | None  # in the channel's zone
    every: float  # seconds between ticks
    failures: int = 0
    error: str = ""
    decision: Explanation | None = None  # with RHYTHM

    def sentences(self) -> list[str]:
        """In English, for the terminal and the API."""
        if self.decision is not None:
            return self.decision.sentences()
        at = "" if self.at is None else f"{self.at:%H:%M:%S %Z}"
        again = f"; it is tried again at {at}" if at else ""
        given_up = " (it was given up: tga channels revive)" if self.why is Why.GIVEN_UP else ""
        failed = f"The last {self.failures} visits failed{given_up}{again}: {self.error}."
        every = f"{self.every:g} s"
        said = {
            Why.PAUSED: "It is paused: it is not looked at until it is resumed (tga channels resume).",
            Why.FAILING: failed,
            Why.GIVEN_UP: failed,
            Why.DUE: "It is due now: its time has come, or a visit was asked for.",
            Why.EVERY_TICK: f"Every channel is visited on every tick, each {every}:"
            " FEATURE_PREDICTIVE_POLLING_ENABLED is off.",
            Why.UNPLANNED: f"No time is planned for it yet: the next tick, within {every}, visits it.",
            Why.POSTPONED: f"Next look at {at}: an album may still be growing, or the account must wait until then.",
        }
        return [said.get(self.why, "Its rhythm was written by another version; it is learned anew at the next visit.")]


def explain_next(channel: Channel, habit: Habit, settings: Settings, now: datetime) -> Explained:
    zone, at = zone_of(habit.timezone), channel.next_visit_at
    said = Explained(
        why=Why.RHYTHM,
        at=None if at is None else at.astimezone(zone),
        every=settings.parser_scheduler_interval_sec,
        failures=channel.failures,
        error=channel.last_error or "",
    )
    if channel.failures or channel.status == "paused":
        stopped = {"paused": Why.PAUSED, "dead": Why.GIVEN_UP}
        return replace(said, why=stopped.get(channel.status, Why.FAILING))
    if at is not None and at <= now:
        return replace(said, why=Why.DUE)
    if not settings.feature_predictive_polling_enabled:
        return replace(said, why=Why.EVERY_TICK)
    if at is None:
        return replace(said, why=Why.UNPLANNED)
    if at != habit.planned_at:
        return replace(said, why=Why.POSTPONED)
    decision = _decision(channel, habit, polling_rules(settings))
    return replace(said, why=Why.UNREADABLE) if decision is None else replace(said, decision=decision)


def _decision(channel: Channel, habit: Habit, rules: PollingRules) -> Explanation | None:
    rhythm, zone = known_rhythm(habit.rhythm), zone_of(habit.timezone)
    if rhythm is None or channel.last_success_at is None or habit.planned_at is None:
        return None
    price = habit.plan_price or first_price(rules.fixed)
    made = explain(rhythm, channel.last_success_at, price, weight=weight_of(habit.priority), zone=zone, rules=rules)
    made = replace(made, at=habit.planned_at.astimezone(zone))
    return made if habit.plan_price is not None else replace(made, reason=Reason.NEW)
