"""An account at work in this process: its row, its budget, its connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, LiveUpdate, Peer, Source, SourceError
from telegram_assistant.ingest.budget import SHORT_FLOOD, Budget
from telegram_assistant.stores.postgres.accounts import Account, AccountStatus

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

    async def resolve(self, ref: ChannelRef) -> ChannelInfo:
        """Look a channel up by what people call it. Costs a request that Telegram limits hard: remember the answer."""
        ...

    def channel(self, peer: Peer) -> Source:
        """A channel to read with this account."""
        ...

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

    def __call__(self, session: str, account_id: str, gate: Budget | None, *, live: bool = False) -> Connection: ...


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
            **self.budget.snapshot(),
        }
