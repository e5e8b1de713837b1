"""The job that closes holes (SPEC 3.6): one process per channel at a time, behind the visits in importance."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from redis.asyncio import Redis

from telegram_assistant.bus.pressure import Pressure
from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.pacing import Priority
from telegram_assistant.errors import AssistantError, Skip
from telegram_assistant.ingest.holes import Filled, HoleFiller
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.ingest.parser import LOW_WATERMARK_TTL
from telegram_assistant.ingest.source import SourceError
from telegram_assistant.ingest.visits import Accounts
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import BACKFILL_JOBS
from telegram_assistant.names import backfill_lock, ingest_alive, low_watermark
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.redis import text_of, time_to_text

LOCK_TTL = 3600.0
IDLE_SECONDS = 2.0
AFTER_FAILURE_SECONDS = 30.0
LONGEST_PAUSE = 3600.0
ALIVE_SECONDS = 30.0  # how long a sign of life lasts
MANY = 50

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
        alive_seconds: float = ALIVE_SECONDS,
        pressure: Pressure | None = None,
    ) -> None:
        self._channels = channels
        self._filler = filler
        self._accounts = accounts
        self._redis = redis
        self._owner = owner
        self._alive_seconds = alive_seconds
        self._pressure = pressure
        self._not_before: dict[int, float] = {}  # channels that failed wait a little
        self._in_vain: Counter[int] = Counter()  # times that a channel was read and still has holes

    async def run(self, task: Task) -> None:
        task.ready()
        living = asyncio.ensure_future(self._show_life())
        try:
            while True:
                await self.step(task.progress)
                task.progress()
                if living.done():
                    living.result()
                await asyncio.sleep(IDLE_SECONDS)
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def _show_life(self) -> None:
        while True:
            heed_stop()
            await self._redis.set(ingest_alive(self._owner), "1", px=int(self._alive_seconds * 1000))
            await asyncio.sleep(self._alive_seconds / 3)

    async def step(self, progress: Callable[[], None] = lambda: None) -> int:
        """Work on what has holes now; how many channels are closed."""
        done = 0
        now = asyncio.get_running_loop().time()
        self._not_before = {channel_id: until for channel_id, until in self._not_before.items() if until > now}
        for channel in await self._channels.with_holes(limit=MANY, without=self._not_before):
            done += await self._close(channel, progress)
        return done

    async def _close(self, channel: Channel, progress: Callable[[], None]) -> bool:
        loop = asyncio.get_running_loop()
        lock = Lock(self._redis, backfill_lock(channel.id), self._owner, ttl=LOCK_TTL, monotonic=loop.time)
        if not (await lock.hold() or await self._inherited(lock, channel)):
            self._not_before[channel.id] = loop.time() + self._alive_seconds
            return False

        async def keep_lock() -> None:
            progress()
            if not await lock.hold():
                raise LockLost(channel.shown)

        async def when_there_is_room() -> None:
            """History does not run away, and is the only thing that can come faster than the stages work."""
            await keep_lock()
            while self._pressure is not None and await self._pressure.full():
                await asyncio.sleep(IDLE_SECONDS)
                await keep_lock()

        BACKFILL_JOBS.labels(channel.id, "enqueued").inc()
        try:
            source, peer = await self._accounts.reader(channel, priority=Priority.BACKFILL)
            filled = await self._filler.fill(channel, source, peer, before_page=when_there_is_room)
        except (SourceError, LockLost) as exc:
            wait = exc.flood_seconds if isinstance(exc, SourceError) and exc.flood_seconds else AFTER_FAILURE_SECONDS
            self._not_before[channel.id] = loop.time() + wait
            BACKFILL_JOBS.labels(channel.id, "failed").inc()
            log.warning("backfill_failed", channel=channel.shown, reason=str(exc), again_in=round(wait))
            return False
        except Skip as exc:
            log.info("backfill_ended", channel=channel.shown, reason=str(exc))
            return False
        finally:
            await lock.release()
        ledger = await self._channels.ledger(channel.id)
        closed = ledger.gaps.intersection(Coverage.of((1, channel.cursor_id + 1))).is_empty
        if closed:
            self._in_vain.pop(channel.id, None)
        else:
            # There are messages that nobody can read.
            pause = min(AFTER_FAILURE_SECONDS * 2 ** self._in_vain[channel.id], LONGEST_PAUSE)
            self._not_before[channel.id] = loop.time() + pause
            self._in_vain[channel.id] += 1
        BACKFILL_JOBS.labels(channel.id, "completed" if closed else "failed").inc()
        log.info("backfill_done", channel=channel.shown, new=filled.new, closed=closed)
        await self._move_watermark(channel, filled)
        return closed

    async def _move_watermark(self, channel: Channel, filled: Filled) -> None:
        """Back to where this backfill began (SPEC 3.5): what somebody asked for, or the oldest post that it found."""
        since = channel.history_from or filled.oldest
        if since is not None:
            await self._redis.set(low_watermark(channel.id), time_to_text(since), ex=LOW_WATERMARK_TTL)

    async def _inherited(self, lock: Lock, channel: Channel) -> bool:
        """An hour is long (SPEC 3.6): whoever died in the middle of its work is not waited for."""
        holder = text_of(await self._redis.get(backfill_lock(channel.id)))
        if holder is None:
            return False
        # Our own is one that we could not give back, because Redis was away.
        if holder != self._owner and await self._redis.exists(ingest_alive(holder)):
            return False
        return await lock.inherit(holder)
