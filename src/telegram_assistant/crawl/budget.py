"""Budgets of crawling in Redis: pages per tenant and day, per site and hour, and a pause between two visits of a host.

One script decides and counts, so two workers cannot both take the last page. Without Redis nothing is crawled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import RedisError

from telegram_assistant.domain.urls import BadUrl, parse_url, site_of
from telegram_assistant.errors import Reject, Retry

NO_REDIS_SECONDS = 30.0
DAY, HOUR = 86_400, 3_600

# Keys: the tenant's day, the site's hour, the host's next turn, the host's own pause.
# Arguments: now, most per tenant, most per site (-1: not counted), pause, patience; times in milliseconds.
# Answer: what is short (0 nothing, 1 tenant, 2 site, 3 the host's turn) and the milliseconds until the turn.
_TAKE = """
local now, tenant_most, site_most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local pause, patience = tonumber(ARGV[4]), tonumber(ARGV[5])
if tenant_most >= 0 and tonumber(redis.call('GET', KEYS[1]) or '0') >= tenant_most then return {1, 0} end
if site_most >= 0 and tonumber(redis.call('GET', KEYS[2]) or '0') >= site_most then return {2, 0} end
local wait = math.max(0, tonumber(redis.call('GET', KEYS[3]) or '0') - now)
if wait > patience then return {3, wait} end
pause = math.max(pause, tonumber(redis.call('GET', KEYS[4]) or '0'))
if tenant_most >= 0 then
  redis.call('INCR', KEYS[1])
  redis.call('EXPIRE', KEYS[1], 172800)
end
if site_most >= 0 then
  redis.call('INCR', KEYS[2])
  redis.call('EXPIRE', KEYS[2], 7200)
end
redis.call('SET', KEYS[3], now + wait + pause, 'PX', wait + pause + 1000)
return {0, wait}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """SPEC 8, and how polite we are."""

    per_tenant_day: int = 300
    per_site_hour: int = 60
    pause_seconds: float = 1.0  # between two visits of one host
    longest_pause_seconds: float = 60.0  # whatever its robots.txt asks for
    patience_seconds: float = 5.0  # waited here; a longer wait is a Retry


class CrawlBudget:
    """Asked before a page is asked for. Raises Retry, with the time and the reason."""

    def __init__(
        self,
        redis: Redis,
        *,
        clock: Callable[[], datetime],
        limits: BudgetLimits | None = None,
        our_hosts: Collection[str] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._redis = redis
        self._clock = clock
        self._limits = limits or BudgetLimits()
        self._our_hosts = frozenset(our_hosts)  # the demo's pages: nobody is there to be polite to
        self._sleep = sleep
        self._take = redis.register_script(_TAKE)

    async def take(self, tenant_id: UUID, url: str) -> None:
        """One page for a tenant; returns when it is the host's turn."""
        try:
            host = parse_url(url).host
        except BadUrl as exc:
            raise Reject(str(exc)) from exc
        await self._taken(tenant_id, host)

    async def take_host(self, host: str) -> None:
        """One page more of a host that a redirect led to; the tenant has paid already."""
        await self._taken(None, host)

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
        """Pages of today, for health and quotas."""
        try:
            return int(await self._redis.get(_tenant_key(tenant_id, self._clock())) or 0)
        except (RedisError, OSError) as exc:
            raise _without_redis() from exc

    async def _taken(self, tenant_id: UUID | None, host: str) -> None:
        now = self._clock()
        limits = self._limits
        ours = host in self._our_hosts
        keys = [_tenant_key(tenant_id, now), _site_key(site_of(host), now), _turn_key(host), _pause_key(host)]
        arguments: list[Any] = [
            int(now.timestamp() * 1000),
            -1 if tenant_id is None else limits.per_tenant_day,
            -1 if ours else limits.per_site_hour,
            0 if ours else int(limits.pause_seconds * 1000),
            int(limits.patience_seconds * 1000),
        ]
        try:
            short, wait = await self._take(keys=keys, args=arguments)
        except (RedisError, OSError) as exc:
            raise _without_redis() from exc
        match int(short):
            case 0 if wait:
                await self._sleep(int(wait) / 1000)
            case 1:
                raise Retry(f"the tenant's {limits.per_tenant_day} pages of today are used up", after=_left(now, DAY))
            case 2:
                reason = f"{site_of(host)} was asked for {limits.per_site_hour} pages in this hour"
                raise Retry(reason, after=_left(now, HOUR))
            case 3:
                raise Retry(f"{host} is visited by others of us now", after=int(wait) / 1000)
            case _:
                pass


def _left(now: datetime, period: int) -> float:
    """Seconds until the day or the hour (UTC) is over."""
    return period - now.timestamp() % period


def _tenant_key(tenant_id: UUID | None, now: datetime) -> str:
    return f"crawl:tenant:{tenant_id}:{now:%Y%m%d}"


def _site_key(site: str, now: datetime) -> str:
    return f"crawl:site:{site}:{now:%Y%m%d%H}"


def _turn_key(host: str) -> str:
    return f"crawl:turn:{host}"


def _pause_key(host: str) -> str:
    return f"crawl:pause:{host}"


def _without_redis() -> Retry:
    return Retry("the budget of crawling cannot be asked: Redis does not answer", after=NO_REDIS_SECONDS)
