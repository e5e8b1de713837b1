"""Large histories in a takeout session, where Telegram's limits are wider: one for each account at a time.

Telegram puts the first request off, often for a day. Until then histories are read the usual way, and so they are when
a takeout is refused or ended: what is read and proven is the same either way.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError, TakeoutDelayed, TakeoutOver
from telegram_assistant.ingest.account_in_use import SHORT_FLOOD, Connection
from telegram_assistant.ingest.roster import Roster
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.takeouts import AccountTakeouts, Takeout

READING_IN_TAKEOUT = "invokeWithTakeout(messages.getHistory)"
LOOK_SECONDS = 5.0
GIVEN_UP = 3600.0  # seconds after which a history that is not read on keeps no takeout open
GRACE = 600.0  # for a takeout of an earlier run: its history is read on soon, or never
REFUSED = timedelta(days=1)  # what Telegram refuses today is not asked for again today

log = get_logger(__name__)


class Takeouts:
    """Says which histories are large, and begins, hands out and finishes the takeouts of this process's accounts."""

    def __init__(
        self,
        store: AccountTakeouts,
        channels: Channels,
        roster: Roster,
        *,
        at_least: int,
        clock: Callable[[], datetime],
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._store = store
        self._channels = channels
        self._roster = roster
        self._at_least = at_least  # unknown messages that make a history large; 0: none is
        self._clock = clock
        self._ticks = ticks
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._reading: dict[int, float] = {}  # large histories: when their reading last went on
        self._given_up = False
        self._finish_at: dict[str, float] = {}  # by account, not before this

    async def run(self, task: Task) -> None:
        """A supervised job: finish what is not needed any more."""
        task.ready()
        while True:
            await self.step()
            task.progress()
            await asyncio.sleep(LOOK_SECONDS)

    async def wants(self, channel: Channel) -> bool:
        """Whether so much of a channel is unknown that it is worth a takeout. What began large stays so."""
        if not self._at_least:
            return False
        large = channel.id in self._reading or (await self._channels.ledger(channel.id)).unknown >= self._at_least
        if large:
            self._reading[channel.id] = self._ticks()
        return large

    async def of(self, account: Connection) -> int | None:
        """The takeout of an account, begun where that is allowed; None: read the usual way."""
        seat = self._roster.seats.get(account.account_id)
        if seat is None or seat.budget.flood_seconds(READING_IN_TAKEOUT) > SHORT_FLOOD:
            return None
        async with self._locks[seat.id]:
            known = await self._store.of(seat.id)
            if known is None or (known.until is not None and known.until > self._clock()):
                return None
            self._finish_at[seat.id] = 0.0
            return await self._begin(account, known) if known.id is None else known.id

    async def _begin(self, account: Connection, known: Takeout) -> int | None:
        try:
            takeout_id = await account.begin_takeout()
        except SourceError as exc:
            if exc.failure in {Failure.TRANSIENT, Failure.ACCOUNT}:
                return None  # the next page fails for the same reason, and is charged for it
            seconds = exc.seconds if isinstance(exc, TakeoutDelayed) else exc.flood_seconds
            until = self._clock() + (REFUSED if seconds is None else timedelta(seconds=seconds))
            log.info("takeout_waits", account=known.account_id, until=until.isoformat(), reason=str(exc))
            await self._store.write(known.account_id, until=until)
            return None
        log.info("takeout_began", account=known.account_id)
        await self._store.write(known.account_id, takeout_id)
        return takeout_id

    async def refused(self, account: Connection, exc: SourceError) -> None:
        """A page could not be read in a takeout."""
        log.info("takeout_refused", account=account.account_id, reason=str(exc))
        if isinstance(exc, TakeoutOver):
            await self._store.write(account.account_id)

    async def step(self) -> None:
        """Finish the takeouts of our accounts when no large history is read any more."""
        for channel_id, last in list(self._reading.items()):
            late = self._ticks() > last + GIVEN_UP
            if late or not (await self._channels.ledger(channel_id)).unknown:
                del self._reading[channel_id]
                self._given_up |= late
        if not self._reading:
            await self._finish_all()

    async def _finish_all(self) -> None:
        for takeout in await self._store.known(self._clock()):
            at = self._finish_at.setdefault(takeout.account_id, self._ticks() + GRACE)
            if takeout.id is not None and at <= self._ticks():
                await self._finish(takeout.account_id, takeout.id)
        self._given_up = False

    async def _finish(self, account_id: str, takeout_id: int) -> None:
        seat = self._roster.seats.get(account_id)
        if seat is None or not seat.ours:
            return
        try:
            await self._roster.reading(seat).finish_takeout(takeout_id, success=not self._given_up)
        except SourceError as exc:
            log.warning("takeout_not_finished", account=account_id, reason=str(exc))
            if exc.failure is not Failure.FATAL:
                return  # the next look tries again
        log.info("takeout_finished", account=account_id)
        await self._store.write(account_id)
        del self._finish_at[account_id]

    async def report(self) -> dict[str, Any]:
        """For health: to be known, no trouble."""
        known = await self._store.known(self._clock())
        return {"status": "ok", "error": None, "note": " ".join(in_words(takeout) for takeout in known) or None}


def in_words(takeout: Takeout) -> str:
    if takeout.until is None:
        return f"{takeout.name} reads large histories in a takeout session."
    return (
        f"Telegram lets {takeout.name} read large histories in a takeout session from"
        f" {takeout.until:%Y-%m-%d %H:%M:%S} UTC on; until then they are read the usual way. Allow the export on"
        f" another device of this account to shorten that, then run `tga accounts takeout {takeout.account_id}`."
    )
