"""Which accounts there are, and which of them are ours: a login, a failure or a move elsewhere is seen here."""

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
from telegram_assistant.domain.source import ReadElsewhere, SourceError, unforeseen
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.account_in_use import AccountInUse, Budget, Connection, Opener, verdict
from telegram_assistant.ingest.lock import shown
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import ACCOUNTS, ACCOUNTS_HELD
from telegram_assistant.stores.postgres.accounts import (
    ACCOUNT,
    SESSION,
    Account,
    AccountLeases,
    Held,
    TelegramAccounts,
    session_digest,
)

REREAD_SECONDS = 5.0
GIVEN_AGAIN_SECONDS = 10.0
BEATS = 5  # renewals of a lease while it lasts
TRUSTED = 0.8  # of a lease: what is left is for closing what we may not use any more

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
        leases: AccountLeases | None = None,
    ) -> None:
        self.seats: dict[str, AccountInUse] = {}
        self.given_error: SourceError | None = None
        self._store = store
        self._opener = opener
        self._clock = clock
        self._paced = paced
        self._given = session  # until it has a row
        self._given_again = -inf
        self._ticks = ticks
        self._leases = leases  # None: no other process uses these accounts
        self.held = Held()
        self._ours_until: dict[str, float] = {}
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._closed = False

    @property
    def usable(self) -> list[AccountInUse]:
        """The accounts that this process may work with now."""
        return [seat for seat in self.seats.values() if seat.ours]

    @property
    def living(self) -> list[AccountInUse]:
        """The accounts that are good, whichever process has them."""
        return [seat for seat in self.seats.values() if seat.usable]

    async def start(self) -> None:
        """Raises Fatal when there are sessions, and the key opens none of them."""
        async with self._lock:
            await self._read()
            active = [seat for seat in self.seats.values() if seat.account.status == "active"]
            if active and not any(seat.usable for seat in active):
                raise Fatal(active[0].trouble or "")
        await self.refresh()
        await self.share()

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(seat.close() for seat in self.seats.values()))
        if self._leases is not None:
            try:
                await self._leases.leave()
            except (OSError, SQLAlchemyError) as exc:
                log.warning("accounts_not_released", reason=str(exc))  # they are free when our time is over

    async def refresh(self) -> None:
        """Look at the database again if that was a while ago."""
        async with self._lock:
            if self._closed:
                raise SourceError(Failure.TRANSIENT, "the accounts are closed: we are stopping")
            if self._read_at is not None and self._ticks() < self._read_at + REREAD_SECONDS:
                return
            await self._read()
            if self._given is not None:
                await self._take_given(self._given)
            self._read_at = self._ticks()
            self._count()

    async def _read(self) -> None:
        accounts = await self._store.all()
        for account in accounts:
            await self._take_in(account)
        for gone in self.seats.keys() - {account.id for account in accounts}:
            await self.seats.pop(gone).close()

    async def share(self) -> float:
        """Keep our accounts and take our share of the others; when to do so again, in seconds.

        What we have to give up is closed before another process may have it. So is what we could not keep in time.
        """
        if self._leases is None:
            return REREAD_SECONDS
        pause, asked = self._leases.ttl / BEATS, self._ticks()
        try:
            async with asyncio.timeout(pause):
                self.held = await self._leases.beat(unusable=[seat.id for seat in self.seats.values() if seat.trouble])
        except (OSError, SQLAlchemyError) as exc:
            log.warning("accounts_not_renewed", reason=str(exc) or "the database did not answer in time")
        else:
            until = asked + self._leases.ttl * TRUSTED
            self._ours_until = dict.fromkeys(self.held.mine.keys() - set(self.held.give), until)
        await self._close_others()
        if self.held.give:
            await self._release([ACCOUNT + account_id for account_id in self.held.give])
            self.held = replace(self.held, give=())
        left = [until - self._ticks() for until in self._ours_until.values()]
        return max(0.0, min([pause, *(seconds for seconds in left if seconds > 0)]))

    async def _release(self, names: list[str]) -> None:
        try:
            if self._leases is not None:
                await self._leases.release(names)
        except (OSError, SQLAlchemyError) as exc:
            log.warning("accounts_not_released", reason=str(exc))  # they are free when our time is over

    async def _close_others(self) -> None:
        for seat in list(self.seats.values()):
            was_ours = seat.reading is not None or seat.live is not None
            seat.budget.usable_until = self._ours_until.get(seat.id, -inf)
            if was_ours and not seat.budget.usable:
                log.info("account_given_up", account=seat.id, name=seat.account.name)
                await seat.close()
        ACCOUNTS_HELD.set(len(self.usable))

    async def end(self, seat: AccountInUse, exc: SourceError) -> None:
        """This session is of no use any more; a new login brings another."""
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

    def reading(self, seat: AccountInUse) -> Connection:
        """The connection for reading, made at the first call. There is no await: two who ask get the same."""
        if not seat.ours:
            raise ReadElsewhere(f"{seat.account.name} belongs to another process now")
        if seat.reading is None:
            seat.reading = self._open(seat, live=False)
        return seat.reading

    async def live(self, seat: AccountInUse) -> Connection:
        """A new connection for live updates; the one before is closed."""
        before, seat.live = seat.live, self._open(seat, live=True)
        if before is not None:
            await before.close()
        return seat.live

    def report(self) -> list[dict[str, Any]]:
        reports = [{**seat.report(), "held_by": self._holder(seat)} for seat in self.seats.values()]
        if self.given_error is not None:
            failed = {"status": verdict(self.given_error), "last_error": str(self.given_error)}
            if self.given_error.failure is not Failure.ACCOUNT:
                failed["status"] = "unreachable"
            reports.append({"id": None, "name": "TELEGRAM_SESSION", **failed})
        return reports

    def who_has_them(self) -> str:
        """In words, for those who have none."""
        others = sorted({shown(owner) for owner in self.held.others.values()})
        if not others:
            return "the accounts are just being shared out"
        return f"every account is used by another process ({', '.join(others)})"

    def _holder(self, seat: AccountInUse) -> str | None:
        if seat.ours:
            return None if self._leases is None else shown(self._leases.owner)
        other = self.held.others.get(seat.id)
        return None if other is None else shown(other)

    def _open(self, seat: AccountInUse, *, live: bool) -> Connection:
        if self._closed:
            raise SourceError(Failure.TRANSIENT, "the accounts are closed: we are stopping")
        try:
            session, proxy = self._store.session(seat.account), self._store.proxy(seat.account)
            return self._opener(session, seat.id, seat.budget, live=live, proxy=proxy)
        except Fatal as exc:
            seat.trouble = str(exc)  # one session that cannot be opened must not stop the others
            raise SourceError(Failure.ACCOUNT, str(exc)) from exc

    async def _take_in(self, account: Account) -> None:
        seat = self.seats.get(account.id)
        if seat is None:
            budget = Budget(account, self._store, clock=self._clock, paced=self._paced, ticks=self._ticks)
            if self._leases is not None:
                budget.usable_until = self._ours_until.get(account.id, -inf)
            seat = self.seats[account.id] = AccountInUse(account, budget)
            await self._check_key(seat)
            return
        before, seat.account = seat.account, account
        seat.budget.merge(account.floods)
        if before.session != account.session:
            await seat.close()
            await self._check_key(seat)
        elif account.status != "active" or before.proxy != account.proxy:
            await seat.close()

    async def _check_key(self, seat: AccountInUse) -> None:
        seat.trouble = None
        try:
            digest = session_digest(self._store.session(seat.account))
        except Fatal as exc:
            seat.trouble = str(exc)
            log.warning("session_not_readable", account=seat.id, name=seat.account.name, reason=str(exc))
        else:
            if seat.account.session_digest is None:
                await self._store.remember_digest(seat.account, digest)

    async def _take_given(self, session: str) -> None:
        """The session of TELEGRAM_SESSION gets a row like any other: its floods, hashes and verdict live there too.

        Whose it is only Telegram can tell, so it takes one connection, of one process; then the row is found by it.
        """
        digest = session_digest(session)
        if any(self._is_given(seat, digest) for seat in self.seats.values()):
            self._given = self.given_error = None
            return
        if self.given_error is not None and (
            self.given_error.failure is Failure.ACCOUNT or self._ticks() < self._given_again
        ):
            return
        if self._leases is None:
            await self._meet(session)
        elif await self._leases.alone(SESSION + digest):
            try:
                await self._meet(session)
            finally:
                await self._release([SESSION + digest])

    def _is_given(self, seat: AccountInUse, digest: str) -> bool:
        """Raises Fatal when it is, and was sealed with another key: ours would lock those out who have that one."""
        if seat.trouble is None:
            return session_digest(self._store.session(seat.account)) == digest
        if seat.account.session_digest == digest:
            raise Fatal(f"TELEGRAM_SESSION is stored already, and others work with it. {seat.trouble}")
        return False

    async def _meet(self, session: str) -> None:
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
        for seat in self.seats.values():
            if seat.account.telegram_user_id == me.id and seat.account.status == "active" and seat.trouble:
                raise Fatal(f"The account of TELEGRAM_SESSION ({me.name}) is stored already. {seat.trouble}")
        await self._take_in(await self._store.add(telegram_user_id=me.id, name=me.name, session=session))
        self._given = self.given_error = None

    def _count(self) -> None:
        statuses = Counter("unusable" if seat.trouble else seat.account.status for seat in self.seats.values())
        for status in ("active", "revoked", "banned", "unusable"):
            ACCOUNTS.labels(status).set(statuses[status])
