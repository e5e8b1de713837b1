"""An account at work in this process: its row, its budget, its connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from math import inf
from time import monotonic
from typing import Any, Protocol, TypeAlias

from sqlalchemy.exc import SQLAlchemyError

from telegram_assistant.domain.accounts import Pace, Priority, rank, warm_up
from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, Followed, LiveUpdate, Peer, ReadElsewhere, Source, SourceError
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import FLOOD_UNTIL, FLOODS, FLOODWAIT_SECONDS, REQUESTS
from telegram_assistant.stores.postgres.accounts import Account, AccountStatus, TelegramAccounts

SHORT_FLOOD = 3.0  # seconds that are waited here; for a longer flood the caller has better things to do
PATIENCE = 30.0  # the same for our own pacing

log = get_logger(__name__)

Place: TypeAlias = tuple[float, int]  # rank, and the order of arrival among equals

_priority: ContextVar[Priority] = ContextVar("priority", default=Priority.VISIT)


@contextmanager
def working_at(priority: Priority) -> Iterator[None]:
    """Requests made inside have this priority. Not around a `yield`: it would reach into the caller."""
    token = _priority.set(priority)
    try:
        yield
    finally:
        _priority.reset(token)


@dataclass(slots=True)
class _Line:
    """Those who wait for one method."""

    pace: Pace
    waiting: list[Place] = field(default_factory=list)

    def ahead_of(self, mine: Place) -> int:
        return sum(other < mine for other in self.waiting)


class Budget:
    """The gate of one account: paces its requests, and remembers its floods across restarts."""

    def __init__(
        self,
        account: Account,
        store: TelegramAccounts,
        *,
        clock: Callable[[], datetime],
        paced: bool = True,
        ticks: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._account_id = account.id
        self._since = account.created_at
        self._store = store
        self._clock = clock
        self._paced = paced
        self._ticks = ticks
        self._sleep = sleep
        self._floods: dict[str, datetime] = {}
        self._lines: dict[str, _Line] = {}
        self._requests: Counter[str] = Counter()
        self._arrivals = count()
        self.usable_until = inf  # by `ticks`: until then no other process uses this account
        self.merge(account.floods)

    async def __call__(self, method: str) -> None:
        """Return when the request may be made. Raises a flood without asking when the wait is long."""
        await self._flood_over(method)
        if self._paced:
            await self._turn(method)
            await self._flood_over(method)  # one may have come while we waited
        if not self.usable:
            raise ReadElsewhere("this account is another process's by now")
        self._requests[method] += 1
        REQUESTS.labels(self._account_id, method).inc()

    @property
    def usable(self) -> bool:
        """Whether the account is ours to use, by our own clock."""
        return self._ticks() < self.usable_until

    async def flooded(self, method: str, seconds: float) -> None:
        """Telegram asks to wait."""
        now = self._clock()
        until = now + timedelta(seconds=seconds)
        self.merge({method: until})
        FLOODS.labels(self._account_id, method).inc()
        FLOODWAIT_SECONDS.inc(seconds)
        log.warning("flood", account=self._account_id, method=method, seconds=seconds, until=until.isoformat())
        if seconds <= SHORT_FLOOD:
            return  # over before a process could restart
        try:
            await self._store.remember_flood(self._account_id, method, until=until, now=now)
        except (OSError, SQLAlchemyError):
            # The caller must hear of the flood, not of the database; this process remembers it anyway.
            log.exception("flood_not_stored", account=self._account_id, method=method)

    def merge(self, floods: Mapping[str, datetime]) -> None:
        """Take over what another process of ours was told; a wait never gets shorter."""
        for method, until in floods.items():
            known = self._floods.get(method)
            if until > self._clock() and (known is None or until > known):
                self._floods[method] = as_utc(until)
                FLOOD_UNTIL.labels(self._account_id, method).set(until.timestamp())

    def floods(self) -> dict[str, datetime]:
        """What must not be asked now, and until when."""
        return {method: until for method, until in dict(self._floods).items() if self.flood_seconds(method)}

    def flood_seconds(self, method: str) -> float:
        """How long this method must not be asked; 0 when it may be."""
        until = self._floods.get(method)
        if until is None:
            return 0.0
        left = (until - self._clock()).total_seconds()
        if left <= 0:
            del self._floods[method]
            return 0.0
        return left

    def expected_wait(self, method: str) -> float:
        """Seconds that a request made now would wait, by floods, pacing and those who wait already."""
        waiting = self._lines.get(method)
        paced = 0.0
        if self._paced and waiting is not None:
            paced = waiting.pace.expected_wait(self._ticks(), ahead=len(waiting.waiting), slower=self._slower())
        return max(paced, self.flood_seconds(method))

    def snapshot(self) -> dict[str, Any]:
        """For health: what must wait and until when, who waits, and what was asked since the start."""
        floods = {method: until.isoformat() for method, until in self.floods().items()}
        waiting = {method: len(line.waiting) for method, line in self._lines.items() if line.waiting}
        return {"floods": floods, "waiting": waiting, "requests": dict(self._requests)}

    async def _flood_over(self, method: str) -> None:
        while left := self.flood_seconds(method):
            if left > SHORT_FLOOD:
                raise SourceError(
                    Failure.FLOOD,
                    f"{method} is not asked: Telegram told this account to wait until"
                    f" {self._floods[method].isoformat(timespec='seconds')}",
                    flood_seconds=left,
                )
            await self._sleep(left)

    async def _turn(self, method: str) -> None:
        line = self._lines.get(method)
        if line is None:
            line = self._lines[method] = _Line(Pace.for_method(method))
        mine = (rank(_priority.get(), self._ticks()), next(self._arrivals))
        line.waiting.append(mine)
        try:
            while (seconds := self._expected(line, mine)) > 0:
                if seconds > PATIENCE:
                    raise SourceError(
                        Failure.FLOOD, f"{method} was asked too often: our own limit", flood_seconds=seconds
                    )
                await self._sleep(seconds)
            line.pace = line.pace.asked(self._ticks(), slower=self._slower())
        finally:
            line.waiting.remove(mine)

    def _expected(self, line: _Line, mine: Place) -> float:
        # Asked again after each sleep: a more urgent request may have come, or one ahead may have given up.
        return line.pace.expected_wait(self._ticks(), ahead=line.ahead_of(mine), slower=self._slower())

    def _slower(self) -> float:
        return warm_up(self._clock() - self._since)


READING = "messages.getHistory"
RESOLVING = "contacts.resolveUsername"
REST_SECONDS = 30.0  # after a lost connection others go first for a while

# Telegram's own words, which stand in every error's text.
_BANNED = ("USER_DEACTIVATED", "PHONE_NUMBER_BANNED", "FROZEN_METHOD_INVALID", "FROZEN_PARTICIPANT_MISSING")
_STALE_HASH = ("CHANNEL_INVALID", "PEER_ID_INVALID")


class Identity(Protocol):
    """Whose account it is."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


class Connection(Protocol):
    """An account's connection: it connects by itself when asked, and again after a failure.

    Every method raises SourceError, and nothing of the library beneath it.
    """

    @property
    def account_id(self) -> str: ...

    @property
    def way(self) -> str:
        """How it reaches Telegram, in words: directly, or through which proxy."""
        ...

    async def resolve(self, ref: ChannelRef) -> ChannelInfo:
        """Look a channel up by what people call it. Costs a request that Telegram limits hard: remember the answer."""
        ...

    async def followed(self, slug: str = "") -> list[Followed]:
        """The channels that this account has joined; with `slug` those of a shared folder."""
        ...

    def channel(self, peer: Peer, takeout: int | None = None) -> Source:
        """A channel to read with this account; its history in a takeout, where one is given."""
        ...

    async def begin_takeout(self) -> int:
        """Raises TakeoutDelayed while Telegram lets us wait for it."""
        ...

    async def finish_takeout(self, takeout_id: int, *, success: bool) -> None: ...

    def updates(self) -> AsyncIterator[LiveUpdate]:
        """Of the channels that this account has joined; the first is Interrupted(None), as soon as it listens."""
        ...

    async def me(self) -> Identity: ...

    async def heartbeat(self) -> datetime:
        """Ask for next to nothing; what time it is for Telegram."""
        ...

    async def close(self) -> None: ...


class Opener(Protocol):
    """Makes a connection from a session; nothing is connected yet. Raises Fatal for what is no session."""

    def __call__(
        self, session: str, account_id: str, gate: Budget | None, *, live: bool = False, proxy: str | None = None
    ) -> Connection:
        """`proxy`: what the account itself is told to go through."""
        ...


def is_stale_hash(exc: SourceError) -> bool:
    """Telegram does not know the channel by the hash that we gave."""
    return exc.failure is Failure.GONE and any(code in str(exc) for code in _STALE_HASH)


def verdict(exc: SourceError) -> AccountStatus:
    """What an account is after it failed for good."""
    return "banned" if any(code in str(exc) for code in _BANNED) else "revoked"


@dataclass(slots=True)
class AccountInUse:
    """One account. It stays when the account fails, so that health can show it."""

    account: Account
    budget: Budget
    trouble: str | None = None  # why this process cannot use an account that is active
    reading: Connection | None = None
    live: Connection | None = None
    handed: int = 0  # grows with each use; the seat that waits longest is next
    resting_until: float = 0.0

    @property
    def id(self) -> str:
        return self.account.id

    @property
    def usable(self) -> bool:
        """Whether the account is good, whichever process has it."""
        return self.account.status == "active" and self.trouble is None

    @property
    def ours(self) -> bool:
        """Whether this process may work with it now."""
        return self.usable and self.budget.usable

    def load(self, method: str, now: float) -> tuple[bool, float, int]:
        """The lowest is asked first."""
        return (self.resting_until > now, self.budget.expected_wait(method), self.handed)

    def flood(self, *methods: str) -> SourceError | None:
        """The longest flood that stands in the way of these methods."""
        seconds, method = max((self.budget.flood_seconds(method), method) for method in methods)
        if seconds <= SHORT_FLOOD:
            return None
        return SourceError(
            Failure.FLOOD, f"{self.account.name} must wait {seconds:.0f} s before {method}", flood_seconds=seconds
        )

    async def close(self) -> None:
        closing, self.reading, self.live = (self.reading, self.live), None, None
        for connection in closing:
            if connection is not None:
                await connection.close()

    def report(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.account.name,
            "status": self.account.status if self.trouble is None else "unusable",
            "last_error": self.trouble or self.account.last_error,
            "opened": self.reading is not None,
            "way": None if self.reading is None else self.reading.way,
            **self.budget.snapshot(),
        }
