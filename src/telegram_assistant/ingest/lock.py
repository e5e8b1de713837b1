"""A lock in Redis with an owner: only the owner extends or releases it, and a lost lock is noticed (SPEC 1.4)."""

from __future__ import annotations

from collections.abc import Callable

from redis.asyncio import Redis

from telegram_assistant.metrics import LOCK_ACQUIRED

EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Lock:
    """`name` = owner, with a TTL. `hold` is called again and again: it takes the lock, or keeps it."""

    def __init__(self, redis: Redis, name: str, owner: str, *, ttl: float, monotonic: Callable[[], float]) -> None:
        self._redis = redis
        self._name = name
        self.owner = owner
        self.ttl = ttl
        self._monotonic = monotonic
        self._extend = redis.register_script(EXTEND)
        self._release = redis.register_script(RELEASE)
        self._held_until = 0.0

    @property
    def held(self) -> bool:
        """By our own clock, so that a namesake who took over after a pause is not mistaken for us."""
        return self._monotonic() < self._held_until

    async def hold(self) -> bool:
        """Take or keep the lock; False while another has it."""
        asked = self._monotonic()
        milliseconds = int(self.ttl * 1000)
        if self.held:
            kept = bool(await self._extend(keys=[self._name], args=[self.owner, milliseconds]))
            status = "extended" if kept else "lost"
        else:
            kept = bool(await self._redis.set(self._name, self.owner, nx=True, px=milliseconds))
            status = "acquired" if kept else "busy"
        LOCK_ACQUIRED.labels(status).inc()
        self._held_until = asked + self.ttl if kept else 0.0
        return kept

    async def release(self) -> None:
        if self.held:
            self._held_until = 0.0
            await self._release(keys=[self._name], args=[self.owner])
