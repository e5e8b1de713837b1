"""The Budget Gate of vision (SPEC 8): nobody asks a model that costs without a place and tokens from here.

Kept in Redis, so that all processes share it. A call reserves before it is made and is charged what it really took; it
fails closed: without Redis there is no call. The reservation of a process that died counts as spent once its time is
over, because nobody knows whether the model had answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any
from uuid import UUID, uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError

from telegram_assistant.domain.vision_budget import AT_ONCE, TOKENS_PER_DAY, Spent, day_of, next_day, refusal
from telegram_assistant.errors import Fatal, Retry, Skip
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import VISION_BUDGET_LIMIT, VISION_BUDGET_REFUSED, VISION_BUDGET_SPENT

LEASE = 300.0  # seconds; longer than any call with its repetitions
AWAY = 5.0  # seconds until Redis is asked again
PAUSE = 0.25  # between two looks for a free place
SPREAD = 900.0  # seconds over which the pictures of yesterday come back after midnight

# What is left behind is charged to the day that notices. Members of the set of running calls are "<tokens>:<id>".
# Sums are kept for three days (259200 s), so that they can be looked up.
_CLEAR = """
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
for _, member in ipairs(gone) do redis.call('INCRBY', KEYS[1], string.match(member, '^%d+')) end
if #gone > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
  redis.call('EXPIRE', KEYS[1], 259200)
end
local running = redis.call('ZRANGE', KEYS[2], 0, -1)
local reserved = 0
for _, member in ipairs(running) do reserved = reserved + tonumber(string.match(member, '^%d+')) end
local spent = tonumber(redis.call('GET', KEYS[1]) or '0')
"""
_STATE = _CLEAR + "return {'ok', spent, reserved, #running}"
_RESERVE = (
    _CLEAR
    + """
local wanted, limit, at_once = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if wanted > 0 and spent + wanted > limit then return {'tokens', spent, reserved, #running} end
if #running >= at_once or (wanted > 0 and spent + reserved + wanted > limit) then
  return {'busy', spent, reserved, #running}
end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[2], 259200)
return {'ok', spent, reserved + wanted, #running + 1}
"""
)
# A reservation that is gone was charged in full already.
_SETTLE = """
local took = tonumber(ARGV[3])
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then took = took - tonumber(ARGV[2]) end
local spent = redis.call('INCRBY', KEYS[1], took)
redis.call('EXPIRE', KEYS[1], 259200)
return spent
"""

_RANDOM = SystemRandom()

log = get_logger(__name__)


def tokens_key(tenant: UUID, day: str) -> str:
    return f"vision:{{{tenant}}}:tokens:{day}"


def running_key(tenant: UUID) -> str:
    return f"vision:{{{tenant}}}:running"


class Call:
    """One call that was let through; say what it took."""

    def __init__(self, tenant: UUID, day: str, tokens: int) -> None:
        self.tenant = tenant
        self.day = day
        self.reserved = tokens
        self.member = f"{tokens}:{uuid4()}"
        self.took: int | None = None

    def used(self, tokens: int) -> None:
        """What the model says it took; otherwise the reservation is charged."""
        self.took = tokens


class BudgetGate:
    """`async with gate.admit(tenant, tokens) as call:` around the call, and `call.used(n)` after it."""

    def __init__(
        self,
        redis: Redis,
        *,
        tokens_per_day: int = TOKENS_PER_DAY,
        at_once: int = AT_ONCE,
        patience: float = 30.0,
        lease: float = LEASE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._limit = tokens_per_day
        VISION_BUDGET_LIMIT.set(tokens_per_day)
        self._at_once = at_once
        self._patience = patience
        self._lease = lease
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._state = redis.register_script(_STATE)
        self._reserve = redis.register_script(_RESERVE)
        self._settle = redis.register_script(_SETTLE)

    @asynccontextmanager
    async def admit(self, tenant: UUID, tokens: int) -> AsyncIterator[Call]:
        """A place and `tokens` for one call; 0 tokens for a model that costs nothing. Raises Retry with its time."""
        call = await self._enter(tenant, tokens)
        try:
            yield call
        except (Retry, Skip, Fatal):
            call.used(call.took or 0)  # the model did not answer
            raise
        finally:
            await self._leave(call)

    async def spent(self, tenant: UUID) -> Spent:
        """The day so far. Raises Retry while Redis is away."""
        now = self._clock()
        _, spent = await self._ask(self._state, tenant, now, now.timestamp())
        return spent

    async def _enter(self, tenant: UUID, tokens: int) -> Call:
        waited = 0.0
        while True:
            now = self._clock()
            call = Call(tenant, day_of(now), tokens)
            until = now.timestamp() + self._lease
            limits = (tokens, self._limit, self._at_once)
            word, spent = await self._ask(self._reserve, tenant, now, now.timestamp(), until, call.member, *limits)
            if word == "ok":
                return call
            if word == "tokens":
                VISION_BUDGET_REFUSED.labels("tokens").inc()
                wait = (spent.resets_at - now).total_seconds() + self._chance() * SPREAD
                raise Retry(refusal(spent, tokens), after=wait)
            if waited >= self._patience:
                VISION_BUDGET_REFUSED.labels("busy").inc()
                raise Retry(f"{spent.running} pictures of this tenant are being looked at", after=1 + self._chance())
            pause = PAUSE * (1 + self._chance())
            waited += pause
            await self._sleep(pause)

    async def _leave(self, call: Call) -> None:
        took = call.reserved if call.took is None else call.took
        keys = [tokens_key(call.tenant, call.day), running_key(call.tenant)]
        try:
            await self._settle(keys=keys, args=[call.member, call.reserved, took])
        except (RedisError, OSError):
            # The answer is there and paid for; its reservation will run out and be charged.
            log.exception("vision_budget_not_settled", tenant=str(call.tenant), tokens=took)

    async def _ask(self, script: Any, tenant: UUID, now: datetime, *arguments: float | str) -> tuple[str, Spent]:
        keys = [tokens_key(tenant, day_of(now)), running_key(tenant)]
        try:
            word, tokens, reserved, running = await script(keys=keys, args=list(arguments))
        except (RedisError, OSError) as exc:
            VISION_BUDGET_REFUSED.labels("redis").inc()
            raise Retry(f"the vision budget cannot be asked, so no model is: {exc}", after=AWAY) from exc
        VISION_BUDGET_SPENT.labels(str(tenant)).set(int(tokens) + int(reserved))
        resets = next_day(now)
        return str(word), Spent(
            tokens=int(tokens), reserved=int(reserved), running=int(running), limit=self._limit, resets_at=resets
        )
