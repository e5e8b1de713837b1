"""What models take, and what remote ones may take: tokens for pictures by tenant, for the rest by day of UTC.

Who pays is said around a call (`paid_by`): the tenants that watch a channel, or the one that asks. A call reserves
before it is made and is charged what it took, also when it fails. PostgreSQL counts (stores/postgres/budgets.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from random import SystemRandom
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.budgets import (
    ALL,
    VISION_AT_ONCE,
    VISION_TOKENS_PER_DAY,
    Claim,
    Kind,
    Short,
    day_of,
    next_day,
    share,
)
from telegram_assistant.domain.models import Identity, Usage
from telegram_assistant.errors import AssistantError, Retry
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import (
    AI_COST,
    AI_LATENCY,
    AI_REQUESTS,
    AI_TOKENS,
    MODEL_BUDGET_LIMIT,
    MODEL_BUDGET_REFUSED,
    MODEL_BUDGET_SPENT,
    VISION_BUDGET_LIMIT,
    VISION_BUDGET_REFUSED,
    VISION_BUDGET_SPENT,
)
from telegram_assistant.stores.outage import is_outage
from telegram_assistant.stores.postgres.budgets import LEASE, Budgets, Held, ModelUsage, Refused

ABILITIES = ("tag", "embed", "answer")
DESCRIBE = "describe"
PAUSE = 0.25  # between two looks for a free place
SPREAD = 900.0  # seconds over which the work of yesterday comes back after midnight
RECOUNTED = timedelta(minutes=1)  # how many tenants share

log = get_logger(__name__)
_RANDOM = SystemRandom()
_PAYERS: ContextVar[frozenset[UUID]] = ContextVar("payers", default=frozenset())
_PURPOSE: ContextVar[str] = ContextVar("purpose", default="")


@contextmanager
def paid_by(tenants: Collection[UUID], *, purpose: str = "") -> Iterator[None]:
    """One of these pays for the calls inside; without any the installation does.

    `purpose` is written down instead of the ability, for what says nothing of what posts cost.
    """
    payers, purposes = _PAYERS.set(frozenset(tenants)), _PURPOSE.set(purpose)
    try:
        yield
    finally:
        _PURPOSE.reset(purposes)
        _PAYERS.reset(payers)


def payers_now() -> frozenset[UUID]:
    """Those who pay here; none: the installation does."""
    return _PAYERS.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The day of UTC so far: tags, vectors and answers of the whole installation."""

    by_ability: Mapping[str, int]
    tokens: int
    limit: int | None  # None: there is none
    resets_at: datetime

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.tokens)

    @property
    def trouble(self) -> str | None:
        """The sentence about a day that is used up."""
        if self.limit is None or self.left != 0:
            return None
        return _refusal("the day's tokens for remote models are", self.tokens, self.limit, self.resets_at)


class BudgetSpent(Retry):
    """The limit of the day is reached; `until` is when there is a new one."""

    def __init__(self, message: str, *, after: float, until: datetime) -> None:
        super().__init__(message, after=after)
        self.until = until


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Of the settings, and how long a call waits for a place."""

    tokens_per_day: int | None = None  # for tags, vectors and answers of all tenants
    vision_per_day: int = VISION_TOKENS_PER_DAY  # of each tenant
    vision_at_once: int = VISION_AT_ONCE
    patience: float = 30.0
    lease: timedelta = LEASE


class ModelBudget:
    """Asked before a call, told after it. Without a limit it only counts."""

    def __init__(
        self,
        budgets: Budgets,
        usage: ModelUsage | None = None,
        limits: ModelLimits = ModelLimits(),  # noqa: B008 - frozen
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self.budgets = budgets
        self._usage = usage
        self._limits = limits
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._tenants: tuple[datetime, int] | None = None  # how many there were, and when they were counted
        self._known: tuple[datetime | None, dict[str, int]] = None, {}  # a day, and what it took when it was asked last
        MODEL_BUDGET_LIMIT.set(limits.tokens_per_day or 0)
        VISION_BUDGET_LIMIT.set(limits.vision_per_day)
        for ability in ABILITIES:
            MODEL_BUDGET_SPENT.labels(ability).set_function(partial(self._shown, ability))

    async def today(self) -> Day:
        now = self._clock()
        spent = {
            kind: (await self.budgets.spent(kind, day_of(now), owners=[ALL])).get(ALL, 0)
            for kind in (Kind.MODELS, *ABILITIES)
        }
        tokens = spent.pop(Kind.MODELS)
        self._known = day_of(now), spent
        return Day(by_ability=spent, tokens=tokens, limit=self._limits.tokens_per_day, resets_at=next_day(now))

    async def report(self) -> dict[str, Any] | None:
        """For health; None without a limit."""
        if self._limits.tokens_per_day is None:
            return None
        day = await self.today()
        return {
            "limit": day.limit,
            "spent": day.tokens,
            "left": day.left,
            "resets_at": day.resets_at.isoformat(),
            "trouble": day.trouble,
        }

    @asynccontextmanager
    async def paid(
        self, identity: Identity, ability: str, price: Price, tokens: int, *, calls: int = 1
    ) -> AsyncIterator[Spending]:
        """Around a call that takes about `tokens`. Raises BudgetSpent, or Retry when too many are under way."""
        held, payer = await self._enter(ability, tokens)
        with measured(identity.provider, ability, price) as spending:
            took = tokens  # who gives a call up, or dies, does not know whether the model answered
            try:
                yield spending
                took = spending.tokens
            except AssistantError:
                took = spending.tokens
                raise
            finally:
                try:
                    self._show(held.claims[0].period, await self.budgets.settle(held, max(took, spending.tokens)))
                    if self._usage is not None:
                        written = _PURPOSE.get() or ability
                        await self._usage.add(payer, written, identity, spending.usage(), calls=calls)
                except (DBAPIError, OSError) as exc:
                    if not is_outage(exc):
                        raise
                    # The answer is there and paid for; what was reserved is charged when its time is over.
                    log.warning("model_tokens_not_counted", ability=ability, tokens=spending.tokens, reason=str(exc))

    async def _enter(self, ability: str, tokens: int) -> tuple[Held, UUID]:
        waited = 0.0
        while True:
            now = self._clock()
            found = await self._claimed(ability, tokens, now)
            if not isinstance(found, Refused):
                return found
            refused = VISION_BUDGET_REFUSED if ability == DESCRIBE else MODEL_BUDGET_REFUSED
            if found.short is Short.SPENT:
                refused.labels("tokens").inc()
                raise self._spent(found, now)
            if waited >= self._limits.patience:
                refused.labels("busy").inc()
                told = f"{found.standing.running} calls of this kind are under way: {ability}"
                raise Retry(told, after=1 + self._chance())
            pause = PAUSE * (1 + self._chance())
            waited += pause
            await self._sleep(pause)

    async def _claimed(self, ability: str, tokens: int, now: datetime) -> tuple[Held, UUID] | Refused:
        """By the first of the payers that can."""
        kind = Kind.VISION if ability == DESCRIBE else Kind.MODELS
        payers = await self.budgets.in_turn(payers_now(), kind, day_of(now))
        found = await self._of(payers[0] if payers else None, ability, tokens, now)
        for payer in payers[1:]:
            # Where the first has too little left, none has enough; but its calls may be under way.
            if not isinstance(found, Refused) or found.short is Short.SPENT:
                break
            found = await self._of(payer, ability, tokens, now)
        return found

    async def _of(self, payer: UUID | None, ability: str, tokens: int, now: datetime) -> tuple[Held, UUID] | Refused:
        claims = await self._claims(ability, tokens, payer, now)
        found = await self.budgets.claim(claims, now, reserve=tokens, lease=self._limits.lease)
        if isinstance(found, Refused):
            return found
        return found, UUID(SYSTEM_TENANT) if payer is None else payer

    async def _claims(self, ability: str, tokens: int, payer: UUID | None, now: datetime) -> list[Claim]:
        day, limits = day_of(now), self._limits
        if ability == DESCRIBE:
            owner = str(payer or SYSTEM_TENANT)
            most, at_once = limits.vision_per_day, limits.vision_at_once
            return [Claim(owner=owner, kind=Kind.VISION, period=day, limit=most, needs=tokens, at_once=at_once)]
        # How long the answer will be is not known: a call is let in while anything is left.
        claims = [Claim(owner=ALL, kind=Kind.MODELS, period=day, limit=limits.tokens_per_day)]
        claims.append(Claim(owner=ALL, kind=ability, period=day))
        if payer is not None:
            part = await self._part(now)
            claims.append(Claim(owner=str(payer), kind=Kind.MODELS, period=day, limit=part))
        return claims

    async def _part(self, now: datetime) -> int | None:
        """What one tenant may take."""
        limit = self._limits.tokens_per_day
        if limit is None:
            return None
        if self._tenants is None or now - self._tenants[0] >= RECOUNTED:
            self._tenants = now, await self.budgets.tenants()
        return share(limit, self._tenants[1])

    def _spent(self, found: Refused, now: datetime) -> BudgetSpent:
        claim, resets = found.claim, next_day(now)
        if claim.kind == Kind.VISION:
            what = "the vision budget of the day is"
        elif claim.owner == ALL:
            what = "the day's tokens for remote models are"
        else:
            what = "your share of the day's tokens for remote models is"
        # What waits does not come back all at once.
        after = (resets - now).total_seconds() + self._chance() * SPREAD
        return BudgetSpent(_refusal(what, found.standing.spent, claim.limit, resets, claim), after=after, until=resets)

    def _show(self, day: datetime, spent: Mapping[tuple[str, str], int]) -> None:
        before = self._known[1] if self._known[0] == day else {}
        self._known = day, {**before, **{kind: sum_ for (owner, kind), sum_ in spent.items() if owner == ALL}}
        for (owner, kind), sum_ in spent.items():
            if kind == Kind.VISION:
                VISION_BUDGET_SPENT.labels(owner).set(sum_)

    def _shown(self, ability: str) -> float:
        """For the gauge: no call may have been made since midnight, and yesterday's sum must not stay."""
        day, spent = self._known
        return spent.get(ability, 0) if day == day_of(self._clock()) else 0


def _refusal(what: str, spent: int, limit: int | None, resets_at: datetime, claim: Claim | None = None) -> str:
    if claim is not None and claim.kind == Kind.VISION:
        need, raised = f", and this picture needs about {claim.needs}", "VISION_TOKENS_PER_DAY"
    else:
        need, raised = "", "MODEL_TOKENS_PER_DAY"
    return f"{what} used up ({spent} of {limit}{need}): wait until {resets_at:%Y-%m-%d %H:%M} UTC, or raise {raised}"


@asynccontextmanager
async def paid(
    budget: ModelBudget | None, identity: Identity, ability: str, price: Price, tokens: int, *, calls: int = 1
) -> AsyncIterator[Spending]:
    """As the budget says; where there is none a call is only measured."""
    if budget is None:
        with measured(identity.provider, ability, price) as spending:
            yield spending
        return
    async with budget.paid(identity, ability, price, tokens, calls=calls) as spending:
        yield spending


@dataclass(frozen=True, slots=True)
class Price:
    """Of a thousand tokens, in the operator's currency."""

    per_1k_in: float = 0.0
    per_1k_out: float = 0.0


FREE = Price()


class Spending:
    """Adds up what the requests of one call take."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._began = time.perf_counter()
        self.tokens_in = 0
        self.tokens_out = 0

    def add(self, tokens_in: int, tokens_out: int) -> None:
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def usage(self) -> Usage:
        cost = (self.tokens_in * self._price.per_1k_in + self.tokens_out * self._price.per_1k_out) / 1000
        latency = (time.perf_counter() - self._began) * 1000
        return Usage(tokens_in=self.tokens_in, tokens_out=self.tokens_out, cost=cost, latency_ms=latency)


@contextmanager
def measured(provider: str, ability: str, price: Price = FREE) -> Iterator[Spending]:
    """Counts how the call ends; what a failed call spent is counted too."""
    spending = Spending(price)
    outcome = "error"
    try:
        yield spending
        outcome = "ok"
    except AssistantError as exc:
        outcome = type(exc).__name__.lower()
        raise
    finally:
        usage = spending.usage()
        AI_REQUESTS.labels(provider, ability, outcome).inc()
        AI_LATENCY.labels(provider, ability).observe(usage.latency_ms / 1000)
        AI_COST.labels(provider, ability).inc(usage.cost)
        AI_TOKENS.labels(provider, ability, "in").inc(spending.tokens_in)
        AI_TOKENS.labels(provider, ability, "out").inc(spending.tokens_out)
