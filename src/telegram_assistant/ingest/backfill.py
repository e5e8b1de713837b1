"""The job that closes holes (SPEC 3.6): one process per channel at a time, behind the visits in importance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from redis.asyncio import Redis

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.errors import AssistantError
from telegram_assistant.ingest.holes import HoleFiller
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.ingest.source import SourceError
from telegram_assistant.ingest.visits import Accounts
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import BACKFILL_JOBS
from telegram_assistant.names import backfill_lock
from telegram_assistant.stores.postgres.channels import Channel, Channels

LOCK_TTL = 3600.0
IDLE_SECONDS = 2.0
AFTER_FAILURE_SECONDS = 30.0

log = get_logger(__name__)


class LockLost(AssistantError):
    """Another process backfills this channel now."""


class Backfill:
    """A supervised job: asks the ledger what is unknown, and reads that."""

    def __init__(
        self,
        channels: Channels,
        filler: HoleFiller,
        accounts: Accounts,
        redis: Redis,
        *,
        owner: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._channels = channels
        self._filler = filler
        self._accounts = accounts
        self._redis = redis
        self._owner = owner
        self._clock = clock
        self._not_before: dict[int, float] = {}  # channels that failed wait a little

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.step(task.progress)
            task.progress()
            await asyncio.sleep(IDLE_SECONDS)

    async def step(self, progress: Callable[[], None] = lambda: None) -> int:
        """Work on what has holes now; how many channels are closed."""
        done = 0
        loop = asyncio.get_running_loop()
        for channel in await self._channels.with_holes(limit=50):
            if loop.time() >= self._not_before.get(channel.id, 0.0):
                done += await self._close(channel, progress)
        return done

    async def _close(self, channel: Channel, progress: Callable[[], None]) -> bool:
        loop = asyncio.get_running_loop()
        lock = Lock(self._redis, backfill_lock(channel.id), self._owner, ttl=LOCK_TTL, monotonic=loop.time)
        if not await lock.hold():
            return False

        async def keep_lock() -> None:
            progress()
            if not await lock.hold():
                raise LockLost(channel.shown)

        BACKFILL_JOBS.labels(channel.id, "enqueued").inc()
        try:
            source, peer = await self._accounts.reader(channel)
            found = await self._filler.fill(channel, source, peer, before_page=keep_lock)
        except (SourceError, LockLost) as exc:
            wait = exc.flood_seconds if isinstance(exc, SourceError) and exc.flood_seconds else AFTER_FAILURE_SECONDS
            self._not_before[channel.id] = loop.time() + wait
            BACKFILL_JOBS.labels(channel.id, "failed").inc()
            log.warning("backfill_failed", channel=channel.shown, reason=str(exc), again_in=round(wait))
            return False
        finally:
            await lock.release()
        closed = (await self._channels.ledger(channel.id)).unknown == 0
        if not closed:
            self._not_before[channel.id] = loop.time() + AFTER_FAILURE_SECONDS
        BACKFILL_JOBS.labels(channel.id, "completed" if closed else "failed").inc()
        log.info("backfill_done", channel=channel.shown, new=found, closed=closed)
        return closed
