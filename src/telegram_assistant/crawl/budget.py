"""Pages that may be read: per tenant and day, per site and hour, and a pause between two visits of a host.

What is spent stands in PostgreSQL; whose turn it is at a host, for a second or so, in Redis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import RedisError

from telegram_assistant.domain.budgets import (
    CRAWLS_PER_DAY,
    CRAWLS_PER_SITE_HOUR,
    Claim,
    Kind,
    day_of,
    hour_of,
    next_day,
)
from telegram_assistant.domain.urls import BadUrl, parse_url, site_of
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.stores.postgres.budgets import Budgets, Refused

NO_REDIS_SECONDS = 30.0
DAY = 86_400

# Keys: the host's next turn, the host's own pause. Arguments: now, pause, patience; times in milliseconds.
# Answer: whether the turn is ours, and the milliseconds until it comes.
_TURN = """
local now, pause, patience = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wait = math.max(0, tonumber(redis.call('GET', KEYS[1]) or '0') - now)
if wait > patience then return {0, wait} end
pause = math.max(pause, tonumber(redis.call('GET', KEYS[2]) or '0'))
redis.call('SET', KEYS[1], now + wait + pause, 'PX', wait + pause + 1000)
return {1, wait}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """SPEC 8, and how polite we are."""

    per_tenant_day: int = CRAWLS_PER_DAY
    per_site_hour: int = CRAWLS_PER_SITE_HOUR
    pause_seconds: float = 1.0  # between two visits of one host
    longest_pause_seconds: float = 60.0  # even if robots.txt asks for more
    patience_seconds: float = 5.0  # waited here; a longer wait is a Retry


class CrawlBudget:
    """Asked before a page is asked for. Raises Retry, with the time and the reason."""

    def __init__(
        self,
        budgets: Budgets,
        redis: Redis,
        *,
        clock: Callable[[], datetime],
        limits: BudgetLimits | None = None,
        our_hosts: Collection[str] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.budgets = budgets
        self._redis = redis
        self._clock = clock
        self._limits = limits or BudgetLimits()
        self._our_hosts = frozenset(our_hosts)  # the demo's pages: they need no manners
        self._sleep = sleep
        self._turn = redis.register_script(_TURN)

    async def take(self, payers: Collection[UUID], url: str) -> None:
        """One page for one of these tenants; returns when it is the host's turn."""
        try:
            host = parse_url(url).host
        except BadUrl as exc:
            raise Reject(str(exc)) from exc
        await self._taken(payers, host)

    async def take_host(self, host: str) -> None:
        """One page more of a host that a redirect led to; a tenant has paid already."""
        await self._taken((), host)

    async def slow_down(self, host: str, seconds: float) -> None:
        """A host asks for a longer pause (crawl-delay)."""
        pause = min(seconds, self._limits.longest_pause_seconds)
        if pause <= self._limits.pause_seconds:
            return
        try:
            await self._redis.set(_pause_key(host), int(pause * 1000), ex=DAY)
        except (RedisError, OSError) as exc:
            raise _without_redis() from exc

    async def used(self, tenant_id: UUID) -> int:
        """Pages of today."""
        owner = str(tenant_id)
        return (await self.budgets.spent(Kind.CRAWL, day_of(self._clock()), owners=[owner])).get(owner, 0)

    async def _taken(self, payers: Collection[UUID], host: str) -> None:
        wait = await self._turn_of(host)
        await self._spend(payers, host)
        if wait:
            await self._sleep(wait)

    async def _turn_of(self, host: str) -> float:
        """Seconds until it comes."""
        limits, ours = self._limits, host in self._our_hosts
        pause = 0.0 if ours else limits.pause_seconds
        moments = (self._clock().timestamp(), pause, limits.patience_seconds)
        try:
            come, wait = await self._turn(
                keys=[f"crawl:turn:{host}", _pause_key(host)], args=[int(moment * 1000) for moment in moments]
            )
        except (RedisError, OSError) as exc:
            raise _without_redis() from exc
        if not come:
            raise Retry(f"{host} is visited by others of us now", after=int(wait) / 1000)
        return int(wait) / 1000

    async def _spend(self, payers: Collection[UUID], host: str) -> None:
        now, limits, claims = self._clock(), self._limits, []
        if host not in self._our_hosts:
            most, hour = limits.per_site_hour, hour_of(now)
            claims.append(Claim(owner=site_of(host), kind=Kind.SITE, period=hour, limit=most))
        if payers:
            payer = (await self.budgets.in_turn(payers, Kind.CRAWL, day_of(now)))[0]
            most, day = limits.per_tenant_day, day_of(now)
            claims.append(Claim(owner=str(payer), kind=Kind.CRAWL, period=day, limit=most))
        refused = await self.budgets.claim(claims, now)
        if not isinstance(refused, Refused):
            return
        if refused.claim.kind == Kind.SITE:
            reason = f"{refused.claim.owner} was asked for {limits.per_site_hour} pages in this hour"
            raise Retry(reason, after=(hour_of(now) + timedelta(hours=1) - now).total_seconds())
        reason = f"the {limits.per_tenant_day} pages of today are used up"
        raise Retry(reason, after=(next_day(now) - now).total_seconds())


def _pause_key(host: str) -> str:
    return f"crawl:pause:{host}"


def _without_redis() -> Retry:
    return Retry("whose turn it is at a host cannot be asked: Redis does not answer", after=NO_REDIS_SECONDS)
