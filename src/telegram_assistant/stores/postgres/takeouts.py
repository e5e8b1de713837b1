"""Takeout sessions of accounts, in which Telegram lets a large history be read with wider limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from telegram_assistant.stores.postgres.database import Store


@dataclass(frozen=True, slots=True)
class Takeout:
    """What is known of an account's takeout: it is open, or may be asked for again at a time."""

    account_id: str
    name: str
    id: int | None = None
    until: datetime | None = None


_SELECT = "SELECT CAST(a.id AS text) AS account_id, a.name, a.takeout_id AS id, a.takeout_until AS until"
_KNOWN = "a.status = 'active' AND (a.takeout_id IS NOT NULL OR a.takeout_until > :now)"


class AccountTakeouts(Store):
    """At most one for each account. They survive a restart: Telegram knows them by the account's session."""

    async def of(self, account_id: str) -> Takeout | None:
        statement = f"{_SELECT} FROM telegram_accounts a WHERE a.id = CAST(:id AS uuid)"
        return await self._first(Takeout, statement, {"id": account_id})

    async def known(self, now: datetime) -> list[Takeout]:
        """Those that are open, and those that wait."""
        statement = f"{_SELECT} FROM telegram_accounts a WHERE {_KNOWN} ORDER BY a.created_at, a.id"
        return await self._all(Takeout, statement, {"now": now})

    async def of_channel(self, channel_id: int, now: datetime) -> Takeout | None:
        """Of the accounts that can read a channel: one that is open, else the one that waits least."""
        statement = (
            f"{_SELECT} FROM channels c JOIN telegram_accounts a ON jsonb_exists(c.access_hash, CAST(a.id AS text))"
            f" WHERE c.id = :id AND {_KNOWN} ORDER BY a.takeout_id IS NULL, a.takeout_until LIMIT 1"
        )
        return await self._first(Takeout, statement, {"id": channel_id, "now": now})

    async def write(self, account_id: str, takeout_id: int | None = None, *, until: datetime | None = None) -> bool:
        """It is open, or waits; with neither it is forgotten, and may be asked for at once."""
        statement = (
            "UPDATE telegram_accounts SET takeout_id = :takeout, takeout_until = :until"
            " WHERE CAST(id AS text) = lower(:id)"
        )
        return bool(await self._run(statement, {"id": account_id, "takeout": takeout_id, "until": until}))
