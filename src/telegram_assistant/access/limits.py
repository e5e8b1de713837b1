"""How often something may be done: a bucket that refills evenly, counted in Redis for all processes together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from redis.asyncio import Redis
from redis.exceptions import RedisError

from telegram_assistant.log import get_logger
from telegram_assistant.names import rate_limit

# Kept is the moment at which the bucket is full again. Arguments: now, room of one, room of all; in milliseconds.
_TAKE = """
local now, one, all = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0')) + one
if full - now > all + 0.5 then return math.ceil(full - now - all) end
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now) + 1000)
return 0
"""

log = get_logger(__name__)


class Limits:
    """Without Redis everything is allowed: better too much for a while than nothing at all."""

    def __init__(self, redis: Redis, clock: Callable[[], datetime]) -> None:
        self._redis = redis
        self._clock = clock
        self._take = redis.register_script(_TAKE)

    async def allow(self, key: str, *, limit: int, per: float) -> float:
        """Seconds to wait; 0: go on, and it is counted. `limit` at once, then evenly over `per` seconds."""
        now = self._clock().timestamp() * 1000
        arguments = [f"{now:.3f}", f"{per * 1000 / limit:.3f}", f"{per * 1000:.3f}"]
        try:
            wait = await self._take(keys=[rate_limit(key)], args=arguments)
        except (RedisError, OSError) as exc:
            log.warning("limits_without_redis", error=str(exc))
            return 0.0
        return int(wait) / 1000

    async def forgive(self, key: str) -> None:
        """What was counted is forgotten."""
        try:
            await self._redis.delete(rate_limit(key))
        except (RedisError, OSError) as exc:
            log.warning("limits_without_redis", error=str(exc))
