"""Which accounts there are: kept in step with the database, so that a login or a failure elsewhere is seen here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from math import inf
from time import monotonic
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from telegram_assistant.domain.retries import Failure
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.budget import Budget
from telegram_assistant.ingest.seats import Connection, Opener, Seat, verdict
from telegram_assistant.ingest.source import SourceError, unforeseen
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import ACCOUNTS
from telegram_assistant.stores.postgres.accounts import Account, TelegramAccounts

REREAD_SECONDS = 5.0
GIVEN_AGAIN_SECONDS = 10.0

log = get_logger(__name__)


class Roster:
    """The seats of all accounts, and the connections of those in use."""

    def __init__(
        self,
        store: TelegramAccounts,
        opener: Opener,
        *,
        clock: Callable[[], datetime],
        paced: bool = True,
        session: str | None = None,
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self.seats: dict[str, Seat] = {}
        self.given_error: SourceError | None = None
        self._store = store
        self._opener = opener
        self._clock = clock
        self._paced = paced
        self._given = session  # until it has a row
        self._given_again = -inf
        self._ticks = ticks
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._closed = False

    @property
    def usable(self) -> list[Seat]:
        return [seat for seat in self.seats.values() if seat.usable]

    async def start(self) -> None:
        """Raises Fatal when there are sessions, and the key opens none of them."""
        await self.refresh()
        active = [seat for seat in self.seats.values() if seat.account.status == "active"]
        if active and not any(seat.usable for seat in active):
            raise Fatal(active[0].trouble or "")

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(seat.close() for seat in self.seats.values()))

    async def refresh(self) -> None:
        """Look at the database again if that was a while ago."""
        async with self._lock:
            if self._closed:
                raise SourceError(Failure.TRANSIENT, "the accounts are closed: we are stopping")
            if self._read_at is not None and self._ticks() < self._read_at + REREAD_SECONDS:
                return
            accounts = await self._store.all()
            for account in accounts:
                await self._take_in(account)
            for gone in self.seats.keys() - {account.id for account in accounts}:
                await self.seats.pop(gone).close()
            if self._given is not None:
                await self._take_given(self._given)
            self._read_at = self._ticks()
            self._count()

    async def end(self, seat: Seat, exc: SourceError) -> None:
        """This session is of no use any more; whoever logs in again brings another."""
        if not seat.usable:
            return
        ended = replace(seat.account, status=verdict(exc), last_error=str(exc))
        seat.account = ended
        log.error("account_lost", account=seat.id, name=ended.name, status=ended.status, reason=str(exc))
        self._count()
        try:
            await self._store.end(ended)
        except (OSError, SQLAlchemyError):
            # The caller must hear of the account, not of the database; the next failure is stored.
            log.exception("account_loss_not_stored", account=seat.id)
        await seat.close()

    def reading(self, seat: Seat) -> Connection:
        """The connection for reading, made at the first call. There is no await: two who ask get the same."""
        if seat.reading is None:
            seat.reading = self._open(seat, live=False)
        return seat.reading

    async def live(self, seat: Seat) -> Connection:
        """A new connection for live updates; the one before is closed."""
        before, seat.live = seat.live, self._open(seat, live=True)
        if before is not None:
            await before.close()
        return seat.live

    def report(self) -> list[dict[str, Any]]:
        reports = [seat.report() for seat in self.seats.values()]
        if self.given_error is not None:
            failed = {"status": verdict(self.given_error), "last_error": str(self.given_error)}
            if self.given_error.failure is not Failure.ACCOUNT:
                failed["status"] = "unreachable"
            reports.append({"id": None, "name": "TELEGRAM_SESSION", **failed})
        return reports

    def _open(self, seat: Seat, *, live: bool) -> Connection:
        if self._closed:
            raise SourceError(Failure.TRANSIENT, "the accounts are closed: we are stopping")
        try:
            return self._opener(self._store.session(seat.account), seat.id, seat.budget, live=live)
        except Fatal as exc:
            seat.trouble = str(exc)  # one session that cannot be opened must not stop the others
            raise SourceError(Failure.ACCOUNT, str(exc)) from exc

    async def _take_in(self, account: Account) -> None:
        seat = self.seats.get(account.id)
        if seat is None:
            budget = Budget(account, self._store, clock=self._clock, paced=self._paced, ticks=self._ticks)
            seat = self.seats[account.id] = Seat(account, budget)
            self._check_key(seat)
            return
        before, seat.account = seat.account, account
        seat.budget.merge(account.floods)
        if before.session != account.session:
            await seat.close()
            self._check_key(seat)
        elif account.status != "active":
            await seat.close()

    def _check_key(self, seat: Seat) -> None:
        seat.trouble = None
        try:
            self._store.session(seat.account)
        except Fatal as exc:
            seat.trouble = str(exc)
            log.warning("session_not_readable", account=seat.id, name=seat.account.name, reason=str(exc))

    async def _take_given(self, session: str) -> None:
        """The session of TELEGRAM_SESSION gets a row like any other: its floods, hashes and verdict live there too.

        Whose it is only Telegram can tell, so it takes one connection; after a restart the row is found by the session.
        """
        if any(seat.trouble is None and self._store.session(seat.account) == session for seat in self.seats.values()):
            self._given = self.given_error = None
            return
        if self.given_error is not None and (
            self.given_error.failure is Failure.ACCOUNT or self._ticks() < self._given_again
        ):
            return
        try:
            connection = self._opener(session, "TELEGRAM_SESSION", None)
        except Fatal as exc:
            raise Fatal(f"TELEGRAM_SESSION: {exc}") from exc
        try:
            me = await connection.me()
        except SourceError as exc:
            self.given_error = exc
            self._given_again = self._ticks() + max(GIVEN_AGAIN_SECONDS, exc.flood_seconds or 0.0)
            log.warning("account_not_usable", name="TELEGRAM_SESSION", reason=str(exc), exc_info=unforeseen(exc))
            return
        finally:
            await connection.close()
        await self._take_in(await self._store.add(telegram_user_id=me.id, name=me.name, session=session))
        self._given = self.given_error = None

    def _count(self) -> None:
        statuses = Counter("unusable" if seat.trouble else seat.account.status for seat in self.seats.values())
        for status in ("active", "revoked", "banned", "unusable"):
            ACCOUNTS.labels(status).set(statuses[status])
