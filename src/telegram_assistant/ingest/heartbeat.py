"""Silence made visible: an account of which nothing was asked for a while is asked for next to nothing (G9).

So it is known within a minute and a half that Telegram does not answer, with two channels as with two thousand. Each
answer tells what time it is for Telegram: our clock is compared with it and with PostgreSQL's, and times that a wrong
clock has stored far ahead are pulled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Protocol

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.health_status import clock_error, promised_at
from telegram_assistant.domain.source import SourceError
from telegram_assistant.freshness import Freshness, Rule
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import CLOCK_OFFSET
from telegram_assistant.stores.postgres.upkeep import Horizon, Spoiled

LOOK_SECONDS = 5.0
QUIET_SECONDS = 40.0  # without any answer, after which an account is asked
ACCOUNT = Rule(
    within=45.0,
    what="was not answered by Telegram",
    cost="nothing new is read with it",
    remedy="look at the network and at Telegram's own state; it is tried again by itself",
)
LISTENER = Rule(
    within=100.0,
    always=True,
    what="has not heard from Telegram",
    cost="new posts of its channels come by polling only, minutes later instead of at once",
    remedy="it connects again by itself; if it lasts, look at the network",
)
UPDATES = Rule(
    within=60.0,
    what="has saved none of its live updates",
    cost="each such channel is read by polling instead",
    remedy="the log says why (live_update_failed)",
)

log = get_logger(__name__)


class Accounts(Protocol):
    """The accounts of this process."""

    async def active(self) -> list[str]: ...

    async def heartbeat(self, account_id: str, *, live: bool = False) -> datetime | None: ...

    def name_of(self, account_id: str) -> str: ...


class Heartbeat:
    """A supervised job."""

    def __init__(
        self, accounts: Accounts, freshness: Freshness, *, told_time: Callable[[datetime], None] = lambda _time: None
    ) -> None:
        self._accounts = accounts
        self._freshness = freshness
        self._told_time = told_time  # hears what time it is for Telegram
        self._known: set[str] = set()
        self._beating: dict[tuple[str, bool], asyncio.Future[Any]] = {}

    async def run(self, task: Task) -> None:
        task.ready()
        try:
            while True:
                await self.look()
                task.progress()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for beat in self._beating.values():
                beat.cancel()
            await asyncio.gather(*self._beating.values(), return_exceptions=True)

    async def look(self) -> None:
        """Ask those of which nothing was heard for a while. None waits for another: a hanging one has no end."""
        active = await self._accounts.active()
        self._watch(set(active))
        self._beating = {key: beat for key, beat in self._beating.items() if not beat.done()}
        for account_id in active:
            for kind, live in (("account", False), ("listener", True)):
                quiet = self._freshness.seconds_since_success(kind, account_id) > QUIET_SECONDS
                if quiet and (account_id, live) not in self._beating:
                    self._beating[account_id, live] = asyncio.ensure_future(self._beat(account_id, live=live))

    def _watch(self, active: set[str]) -> None:
        for account_id in active - self._known:
            name = self._accounts.name_of(account_id)
            for kind, rule in (("account", ACCOUNT), ("listener", LISTENER), ("live updates", UPDATES)):
                self._freshness.watch(kind, account_id, rule.named(name))
        for account_id in self._known - active:
            for kind in ("account", "listener", "live updates"):
                self._freshness.forget(kind, account_id)
        self._known = active

    async def _beat(self, account_id: str, *, live: bool) -> None:
        try:
            time = await self._accounts.heartbeat(account_id, live=live)
        except SourceError as exc:
            log.info("no_heartbeat", account=account_id, live=live, reason=str(exc))
        else:
            if time is not None:
                self._told_time(time)


COMPARE_SECONDS = 15.0
TRUSTED = timedelta(seconds=30)  # a clock that differs more from the database's pulls nothing back
TOLD_SECONDS = 120.0  # so long health tells what was pulled back


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
            await asyncio.sleep(COMPARE_SECONDS)

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
