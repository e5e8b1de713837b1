"""The tick (SPEC 1.1, 1.4, 1.9): the holder of the lock says what is due; every ingest process visits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from redis.asyncio import Redis

from telegram_assistant import __version__
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.health_status import (
    AHEAD,
    ParserStatus,
    Promises,
    SchedulerStatus,
    parser_status,
    scheduler_status,
)
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.ingest.polling import Polling
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import CHANNELS_DUE, CHANNELS_OVERDUE, INTERVAL, LAST_TICK, LOCK_ACQUIRED
from telegram_assistant.names import SCHEDULER_LAST_TICK, SCHEDULER_LOCK
from telegram_assistant.stores.postgres.channels import Channels, Outcome
from telegram_assistant.stores.redis import time_from_text, time_to_text

LOCK_TTL = 60.0
FAILING_SHOWN = 20
NAMED = 3
LOOK_SHARE = 50.0

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
        visits_lately: Callable[[], tuple[int, int]] = lambda: (0, 0),
        lock_ttl: float = LOCK_TTL,
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._channels = channels
        self._redis = redis
        self._interval = timedelta(seconds=interval)
        INTERVAL.set(interval)
        self._clock = clock
        self._due = due  # wakes this process's visitor
        self._watch = watch  # looks for unusual silence
        self._polling = polling  # None: every channel on every tick
        self._visits_lately = visits_lately
        self._outcome: tuple[float, Outcome] | None = None  # the last, and until when it is good enough
        self._ticks = ticks
        self._began = ticks()
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
                    age = None if last is None else self._clock() - last
                    if last is None or age is None or age >= self._interval or age < -AHEAD:
                        await self.tick()
                    else:
                        LAST_TICK.set(last.timestamp())  # of the process that ticked before us
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
            "error": None if status is SchedulerStatus.OK else _no_tick(last, self._clock()),
        }

    async def report_parser(self) -> dict[str, Any]:
        """By promises (SPEC 7.3, G9): who was not read in time, since when, and why."""
        outcome = await self._look()
        visits, failed = self._visits_lately()
        status = parser_status(
            Promises(
                active=outcome.active,
                dead=outcome.dead,
                overdue=outcome.overdue,
                late=outcome.late,
                failing_twice=outcome.failing_twice,
                visits=visits,
                visits_failed=failed,
            )
        )
        if status is ParserStatus.DEGRADED and self._ticks() - self._began < 2 * self._interval.total_seconds():
            status = ParserStatus.OK  # what was missed while nothing ran is being read
        counted = ("active", "failing", "dead", "overdue")
        return {
            "status": status.value,
            "version": __version__,
            "initialized": True,
            "channels": {name: getattr(outcome, name) for name in counted},
            "visits_lately": {"ended": visits, "failed": failed},
            "failing": [{"channel": name, "error": error} for name, error in outcome.worst],
            "overdue": [
                {"channel": name, "since": since.isoformat(), "error": error} for name, since, error in outcome.longest
            ],
            "error": None if status is ParserStatus.OK else _told(outcome, visits, failed),
        }

    async def _look(self) -> Outcome:
        """At most a fiftieth of the time is spent with it, however many channels there are."""
        began = monotonic()
        if self._outcome is None or began >= self._outcome[0]:
            found = await self._channels.outcome(self._clock(), shown=FAILING_SHOWN)
            self._outcome = began + LOOK_SHARE * (monotonic() - began), found
            CHANNELS_OVERDUE.set(found.overdue)
        return self._outcome[1]


def _no_tick(last: datetime | None, now: datetime) -> str:
    if last is None:
        return "no tick since the start; no channel is visited; is another process holding scheduler:lock?"
    if last > now:
        return (
            f"the last tick is said to be at {last.isoformat()}, which has not come yet; a clock was wrong; the next"
            " tick puts it right"
        )
    return f"no tick since {last.isoformat()}; no channel becomes due; the log of the task `scheduler` says why"


def _told(outcome: Outcome, visits: int, failed: int) -> str:
    """What is wrong, since when, what it costs, what to do."""
    said = []
    if outcome.overdue:
        name, since, error = outcome.longest[0]
        some = ", ".join(one for one, _, _ in outcome.longest[:NAMED])
        said.append(
            f"{outcome.overdue} of {outcome.active} channels were not read in time, the first since"
            f" {since:%Y-%m-%d %H:%M:%S} UTC ({some}; {name}: {error or 'no error, it waits for its turn'})"
        )
    if outcome.failing_twice:
        name, error = outcome.worst[0]
        said.append(f"{outcome.failing} of {outcome.active} channels fail, e.g. {name}: {error}")
    if failed:
        said.append(f"{failed} of the last {visits} visits failed")
    if outcome.dead:
        some = "; ".join(f"{name}: {error}" for name, error in outcome.given_up[:NAMED])
        said.append(f"given up: {outcome.dead} ({some}; `tga channels list` names them; revive or remove them)")
    return "; ".join([*said, "their new posts are not captured yet; mend what the error says, they are tried again"])
