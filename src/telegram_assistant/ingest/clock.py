"""Whether our clock is right (N2): compared with the database's and with Telegram's; what it spoiled is pulled back.

A clock that was a day ahead for a few seconds leaves next visits, promises and leases that lie a day ahead. Nothing
that we store on purpose lies so far ahead, so it is found by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Protocol

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.health_status import clock_error, promised_at
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import CLOCK_OFFSET
from telegram_assistant.stores.postgres.upkeep import Horizon, Spoiled

LOOK_SECONDS = 15.0
TRUSTED = timedelta(seconds=30)  # a clock that differs more from the database's pulls nothing back
TOLD_SECONDS = 120.0  # so long health tells what was pulled back

log = get_logger(__name__)


class Times(Protocol):
    """The database's clock, and the times that are stored in it."""

    async def now(self) -> datetime: ...

    async def pull_back(self, now: datetime, horizon: Horizon, promised: datetime) -> Spoiled: ...


class ClockWatch:
    """A supervised job."""

    def __init__(
        self,
        times: Times,
        horizon: Horizon,
        *,
        interval: timedelta,
        clock: Callable[[], datetime],
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._times = times
        self._horizon = horizon
        self._interval = interval
        self._clock = clock
        self._ticks = ticks
        self._ahead: dict[str, timedelta] = {}  # of us, by whose clock we are compared with
        self._spoiled: tuple[float, datetime, Spoiled] | None = None

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.look()
            task.progress()
            await asyncio.sleep(LOOK_SECONDS)

    def telegram_says(self, time: datetime) -> None:
        """What time it is for Telegram: that of its last message, so it may be a moment ago."""
        self._compare("telegram", self._clock() - time)

    async def look(self) -> None:
        before = self._clock()
        theirs = await self._times.now()
        now = self._clock()
        self._compare("database", before + (now - before) / 2 - theirs)
        if abs(self._ahead["database"]) > TRUSTED:
            return  # by a wrong clock all that is right looks wrong
        spoiled = await self._times.pull_back(now, self._horizon, promised_at(now, None, self._interval))
        if spoiled.channels:
            log.warning("times_pulled_back", channels=spoiled.channels, latest=str(spoiled.latest))
            self._spoiled = self._ticks(), now, spoiled

    async def report(self) -> dict[str, Any]:
        """For health."""
        said = [error for whose, ahead in self._ahead.items() if (error := clock_error(whose, ahead))]
        status = "failing" if said else "ok"
        if self._spoiled is not None and self._ticks() - self._spoiled[0] < TOLD_SECONDS:
            _, at, spoiled = self._spoiled
            status = "failing" if said else "degraded"
            said.append(
                f"at {at:%H:%M:%S} UTC {spoiled.channels} channels had times far ahead, up to"
                f" {spoiled.latest:%Y-%m-%d %H:%M} UTC: a clock was wrong; they are put right now; see that NTP sets"
                " the time of every machine"
            )
        return {
            "status": status,
            "error": "; ".join(said) or None,
            "ahead_of": {whose: round(ahead.total_seconds(), 1) for whose, ahead in self._ahead.items()},
        }

    def _compare(self, whose: str, ahead: timedelta) -> None:
        self._ahead[whose] = ahead
        CLOCK_OFFSET.labels(whose).set(ahead.total_seconds())
