"""What remote models may take in a day: tokens for tags, vectors and answers, of the whole installation.

Kept in Redis, so that all processes share it. Nothing is reserved: a call is let in while the day has tokens left and
is charged what it took, so those under way when the limit is reached go a little over it. With a limit it fails closed:
without Redis there is no call. Pictures have a budget of their own, by tenant (budget.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from telegram_assistant.ai.budget import AWAY, SPREAD
from telegram_assistant.ai.measure import Price, Spending, measured
from telegram_assistant.domain.vision_budget import day_of, next_day
from telegram_assistant.errors import Retry
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import MODEL_BUDGET_LIMIT, MODEL_BUDGET_REFUSED, MODEL_BUDGET_SPENT
from telegram_assistant.names import model_tokens

ABILITIES = ("tag", "embed", "answer")
KEPT = 259_200  # seconds: three days, so that sums can be looked up

_RANDOM = SystemRandom()

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The day of UTC so far."""

    by_ability: Mapping[str, int]
    limit: int | None  # None: there is none
    resets_at: datetime

    @property
    def tokens(self) -> int:
        return sum(self.by_ability.values())

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.tokens)

    @property
    def trouble(self) -> str | None:
        """The sentence about a day that is used up."""
        if self.left != 0:
            return None
        return (
            f"the day's tokens for remote models are used up ({self.tokens} of {self.limit}): wait until"
            f" {self.resets_at:%Y-%m-%d %H:%M} UTC, or raise MODEL_TOKENS_PER_DAY"
        )


class BudgetSpent(Retry):
    """The limit of the day is reached; `until` is when there is a new one."""

    def __init__(self, message: str, *, after: float, until: datetime) -> None:
        super().__init__(message, after=after)
        self.until = until


class TokenBudget:
    """Asked before a call, told after it. Without a limit it only counts."""

    def __init__(
        self,
        redis: Redis,
        *,
        tokens_per_day: int | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._redis = redis
        self._limit = tokens_per_day
        self._clock = clock
        self._chance = chance
        self._known: tuple[str, dict[str, int]] = "", {}  # a day, and what it took when Redis was asked last
        MODEL_BUDGET_LIMIT.set(tokens_per_day or 0)
        for ability in ABILITIES:
            MODEL_BUDGET_SPENT.labels(ability).set_function(partial(self._shown, ability))

    async def today(self) -> Day:
        """Raises Retry while Redis is away."""
        now = self._clock()
        try:
            found: Mapping[Any, Any] = await self._redis.hgetall(model_tokens(day_of(now)))
        except (RedisError, OSError) as exc:
            raise Retry(f"the budget of remote models cannot be asked, so no model is: {exc}", after=AWAY) from exc
        spent = {ability: int(found.get(ability, 0)) for ability in ABILITIES}
        self._known = day_of(now), spent
        return Day(by_ability=spent, limit=self._limit, resets_at=next_day(now))

    async def report(self) -> dict[str, Any] | None:
        """For health; None without a limit."""
        if self._limit is None:
            return None
        day = await self.today()
        return {
            "limit": day.limit,
            "spent": day.tokens,
            "left": day.left,
            "resets_at": day.resets_at.isoformat(),
            "trouble": day.trouble,
        }

    async def admit(self) -> None:
        """Raises BudgetSpent when the day has no tokens left, Retry when that cannot be told."""
        if self._limit is None:
            return
        try:
            day = await self.today()
        except Retry:
            MODEL_BUDGET_REFUSED.labels("redis").inc()
            raise
        if day.trouble is not None:
            MODEL_BUDGET_REFUSED.labels("tokens").inc()
            # What waits does not come back all at once.
            after = (day.resets_at - self._clock()).total_seconds() + self._chance() * SPREAD
            raise BudgetSpent(day.trouble, after=after, until=day.resets_at)

    async def charge(self, ability: str, tokens: int) -> None:
        day = day_of(self._clock())
        key = model_tokens(day)
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                _ = pipe.hincrby(key, ability, tokens)
                _ = pipe.expire(key, KEPT)
                total, _ = await pipe.execute()
        except (RedisError, OSError):
            # The answer is there and paid for.
            log.exception("model_tokens_not_counted", ability=ability, tokens=tokens)
        else:
            before = self._known[1] if self._known[0] == day else {}
            self._known = day, {**before, ability: int(total)}

    def _shown(self, ability: str) -> float:
        """For the gauge: nobody may have asked since midnight, and yesterday's sum must not stay."""
        day, spent = self._known
        return spent.get(ability, 0) if day == day_of(self._clock()) else 0


@asynccontextmanager
async def paid(budget: TokenBudget | None, provider: str, ability: str, price: Price) -> AsyncIterator[Spending]:
    """Around a call: let in, measured and charged. What a call took that failed, or was given up, is charged too."""
    if budget is not None:
        await budget.admit()
    with measured(provider, ability, price) as spending:
        try:
            yield spending
        finally:
            tokens = spending.tokens_in + spending.tokens_out
            if budget is not None and tokens:
                await budget.charge(ability, tokens)
