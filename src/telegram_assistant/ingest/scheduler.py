"""The tick (SPEC 1.1, 1.4, 1.9): the holder of the lock says what is due; every ingest process visits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from redis.asyncio import Redis

from telegram_assistant import __version__
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.health_status import ParserStatus, SchedulerStatus, parser_status, scheduler_status
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.ingest.polling import Polling
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import CHANNELS_DUE, INTERVAL, LAST_TICK, LOCK_ACQUIRED
from telegram_assistant.names import SCHEDULER_LAST_TICK, SCHEDULER_LOCK
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.redis import time_from_text, time_to_text

LOCK_TTL = 60.0
FAILING_SHOWN = 20

log = get_logger(__name__)


class Scheduler:
    """One per ingest process; only the one with the lock ticks."""

    def __init__(
        self,
        channels: Channels,
        redis: Redis,
        *,
        owner: str,
        interval: float,
        clock: Callable[[], datetime],
        due: asyncio.Event,
        watch: Callable[[], Awaitable[int]],
        polling: Polling | None = None,
        lock_ttl: float = LOCK_TTL,
    ) -> None:
        self._channels = channels
        self._redis = redis
        self._interval = timedelta(seconds=interval)
        INTERVAL.set(interval)
        self._clock = clock
        self._due = due  # wakes this process's visitor
        self._watch = watch  # looks for unusual silence
        self._polling = polling  # None: every channel on every tick
        self.lock = Lock(
            redis,
            SCHEDULER_LOCK,
            owner,
            ttl=lock_ttl,
            monotonic=asyncio.get_running_loop().time,
            count=lambda status: LOCK_ACQUIRED.labels(status).inc(),
        )

    async def run(self, task: Task) -> None:
        """A supervised job: keep or seek the lock, and tick when it is time."""
        task.ready()
        try:
            while True:
                if await self.lock.hold():
                    last = time_from_text(await self._redis.get(SCHEDULER_LAST_TICK))
                    if last is None or self._clock() - last >= self._interval:
                        await self.tick()
                    else:
                        LAST_TICK.set(last.timestamp())  # of whoever ticked before us
                task.progress()
                await asyncio.sleep(min(self.lock.ttl / 3, self._interval.total_seconds(), 1.0))
        finally:
            await self.lock.release()

    async def tick(self) -> int:
        """Make channels due, and how many are: every active one, or those that their rhythm gave no later time.

        A lock that was lost meanwhile ends the tick.
        """
        now = self._clock()
        due = await self._channels.plan(now, every=self._polling is None)
        await self._watch()
        price = None if self._polling is None else (await self._polling.reprice()).price
        if not self.lock.held:
            log.warning("lock_lost_during_tick")
            return due
        await self._redis.set(SCHEDULER_LAST_TICK, time_to_text(now))
        LAST_TICK.set(now.timestamp())
        CHANNELS_DUE.set(due)
        self._due.set()
        log.info("tick", due=due, price=price)
        return due

    async def report(self) -> dict[str, Any]:
        """SPEC 6.2."""
        last = time_from_text(await self._redis.get(SCHEDULER_LAST_TICK))
        status = scheduler_status(last, self._clock(), self._interval)
        return {
            "status": status.value,
            "last_tick_ts": last.isoformat() if last else None,
            "interval_sec": self._interval.total_seconds(),
            "lock_owner": await self._redis.get(SCHEDULER_LOCK),
            "error": None
            if status is SchedulerStatus.OK
            else f"no tick since {last.isoformat() if last else 'the start'}",
        }

    async def report_parser(self) -> dict[str, Any]:
        """By outcome (SPEC 7.3): ticks that parse nothing because channels fail are not ok, and the page says which."""
        outcome = await self._channels.outcome(failing_shown=FAILING_SHOWN)
        status = parser_status(
            active=outcome.active,
            failing=outcome.failing,
            failing_twice=outcome.failing_twice,
            dead=outcome.dead,
        )
        failing = status is ParserStatus.FAILING
        return {
            "status": "failing" if failing else "ok",  # a few failing channels are named below, and are not red
            "version": __version__,
            "initialized": True,
            "channels": {"active": outcome.active, "failing": outcome.failing, "dead": outcome.dead},
            "failing": [{"channel": name, "error": error} for name, error in outcome.worst],
            "error": f"every channel fails, e.g. {outcome.worst[0][0]}: {outcome.worst[0][1]}" if failing else None,
        }
