"""A lock in Redis with an owner: only the owner extends or releases it, and a lost lock is noticed (SPEC 1.4)."""

from __future__ import annotations

from collections.abc import Callable

from redis.asyncio import Redis

EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
INHERIT = (
    "if redis.call('get', KEYS[1]) == ARGV[3] then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end"
    " return 0"
)
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Lock:
    """`name` = owner, with a TTL. `hold` is called again and again: it takes the lock, or keeps it."""

    def __init__(
        self,
        redis: Redis,
        name: str,
        owner: str,
        *,
        ttl: float,
        monotonic: Callable[[], float],
        count: Callable[[str], object] = lambda _status: None,
    ) -> None:
        self._redis = redis
        self._name = name
        self.owner = owner
        self.ttl = ttl
        self._monotonic = monotonic
        self._count = count
        self._extend = redis.register_script(EXTEND)
        self._inherit = redis.register_script(INHERIT)
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
        self._count(status)
        self._held_until = asked + self.ttl if kept else 0.0
        return kept

    async def inherit(self, dead: str) -> bool:
        """Take the lock from an owner who is known to be gone, if it is still that one's."""
        asked = self._monotonic()
        taken = bool(await self._inherit(keys=[self._name], args=[self.owner, int(self.ttl * 1000), dead]))
        self._held_until = asked + self.ttl if taken else 0.0
        return taken

    async def release(self) -> None:
        if self.held:
            self._held_until = 0.0
            await self._release(keys=[self._name], args=[self.owner])
