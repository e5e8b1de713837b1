"""How much waits for the stages in Redis, so that whoever adds to it stops before its memory is full."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from redis.asyncio import Redis

from telegram_assistant.log import get_logger
from telegram_assistant.metrics import PIPELINE_BYTES, PIPELINE_FULL
from telegram_assistant.names import stream, waiting_events

LOOK_EVERY = 0.25  # seconds; a relay adds a few megabytes meanwhile
MEGABYTE = 2**20

log = get_logger(__name__)


class Pressure:
    """One per process: the streams that stages read, and what they try again later."""

    def __init__(self, redis: Redis, groups: Iterable[tuple[str, str]], *, most_mb: int) -> None:
        pairs = list(groups)
        self._redis = redis
        self._keys = sorted({*(stream(event) for event, _ in pairs), *(waiting_events(stage) for _, stage in pairs)})
        self._most = most_mb * MEGABYTE
        self._bytes = 0
        self._full = False
        self._looked = -float("inf")

    async def full(self) -> bool:
        """Whether whoever publishes should wait: what it has is safe where it is."""
        if time.monotonic() - self._looked > LOOK_EVERY:
            await self._look()
        return self._full

    async def _look(self) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in self._keys:
                _ = pipe.memory_usage(key)
            self._bytes = sum(size or 0 for size in await pipe.execute())
        self._looked = time.monotonic()
        full = self._bytes > self._most
        if full != self._full:
            log.warning("pipeline_full" if full else "pipeline_has_room", megabytes=round(self._bytes / MEGABYTE, 1))
        self._full = full
        PIPELINE_BYTES.set(self._bytes)
        PIPELINE_FULL.set(full)

    async def report(self) -> dict[str, Any]:
        """For health: waiting is what it should do, so it is no failure; a stage that stands still says so itself."""
        return {"status": "ok", "full": self._full, "megabytes": round(self._bytes / MEGABYTE, 1)}
