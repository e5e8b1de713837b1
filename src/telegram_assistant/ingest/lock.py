"""A lock in Redis with an owner (SPEC 1.4), and who a process is: only the owner extends or releases its lock."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

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


def new_identity(hostname: str) -> str:
    """Differs for every start, even under one name and one number: a lease of a former life is not ours."""
    born = _born(os.getpid()) or secrets.token_hex(8)
    return f"{hostname}/{_machine()}/{os.getpid()}/{born}"


def shown(identity: str) -> str:
    """As people name the process."""
    return identity.rsplit("/", 3)[0]


def is_gone(identity: str) -> bool:
    """True only for a process of this machine that does not exist any more: it need not be waited for."""
    parts = identity.rsplit("/", 3)
    if len(parts) != 4 or not _machine() or parts[1] != _machine() or not parts[2].isdigit():
        return False
    return _born(int(parts[2])) != parts[3]


def _machine() -> str:
    """Numbers of processes mean something within one boot of one machine, and there within one container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty when there is none."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return told.rpartition(")")[2].split()[19]
