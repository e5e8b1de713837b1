"""Users of the bot: their linked Telegram accounts, and the alerts that wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import Caller, Via
from telegram_assistant.stores.postgres.database import Store, as_value

_ACTIVE = "NOT disabled AND role <> 'system'"
# Two people who link the same Telegram user at once come one after the other.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('users.telegram_user_id', CAST(:telegram AS bigint)))"


class TelegramUsers(Store):
    """The column `users.telegram_user_id`: each Telegram user speaks for one user at most, and the other way round."""

    async def caller(self, telegram_user_id: int) -> Caller | None:
        """Who this is to us. None: a stranger, or a user who was disabled."""
        statement = (
            "SELECT u.tenant_id, t.name AS tenant, u.id AS user_id, u.name, u.role"
            " FROM users u JOIN tenants t ON t.id = u.tenant_id"
            " WHERE u.telegram_user_id = :telegram AND NOT u.disabled AND u.role <> 'system'"
        )
        row = await self._row(statement, {"telegram": telegram_user_id})
        # Like a key: there is no form that another site could send.
        return None if row is None else as_value(Caller, row, via=Via.KEY)

    async def link(self, tenant_id: UUID, user_id: UUID, telegram_user_id: int) -> bool:
        """From now on this Telegram user is this user only. False: there is no such user (any more)."""
        values = {"tenant": tenant_id, "user": user_id, "telegram": telegram_user_id}
        async with self._database.begin() as connection:
            await connection.execute(text(_LOCK), values)
            await connection.execute(
                text("UPDATE users SET telegram_user_id = NULL WHERE telegram_user_id = :telegram AND id <> :user"),
                values,
            )
            done = await connection.execute(
                text(
                    "UPDATE users SET telegram_user_id = :telegram"
                    f" WHERE id = :user AND tenant_id = :tenant AND {_ACTIVE}"
                ),
                values,
            )
            if not done.rowcount:
                await connection.rollback()
            return bool(done.rowcount)

    async def unlink(self, tenant_id: UUID, user_id: UUID) -> bool:
        """False: there was no link."""
        statement = (
            "UPDATE users SET telegram_user_id = NULL"
            " WHERE id = :user AND tenant_id = :tenant AND telegram_user_id IS NOT NULL"
        )
        return bool(await self._run(statement, {"tenant": tenant_id, "user": user_id}))

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> int | None:
        """Whom to write to. None: not linked, or disabled."""
        statement = f"SELECT telegram_user_id FROM users WHERE id = :user AND {_ACTIVE}"
        found: int | None = await self._value(statement, {"user": user_id}, tenant=tenant_id)
        return found

    async def admins(self, tenant_id: UUID) -> list[UUID]:
        """The admins of a tenant who can be written to."""
        statement = text(
            f"SELECT id FROM users WHERE role = 'admin' AND telegram_user_id IS NOT NULL AND {_ACTIVE} ORDER BY id"
        )
        return [row[0] for row in await self._rows(statement, tenant=tenant_id)]


# A row has the time at which its transaction began: what is younger than this may still get an older neighbour.
SETTLED = timedelta(seconds=5)

_FOUND = """
SELECT a.found_at AS at, a.post_id AS id, a.search_id, s.tenant_id, s.user_id, s.name,
  (SELECT count(*)::int FROM search_alerts o WHERE o.search_id = a.search_id AND o.story_of = a.post_id) AS also
FROM search_alerts a JOIN saved_searches s ON s.id = a.search_id JOIN users u ON u.id = s.user_id
WHERE a.story_of IS NULL AND NOT s.muted AND u.telegram_user_id IS NOT NULL AND NOT u.disabled
  AND (a.found_at, a.post_id, a.search_id) > (:at, :id, :search) AND a.found_at < now() - CAST(:settled AS interval)
ORDER BY a.found_at, a.post_id, a.search_id LIMIT :limit
"""
# A notice without a user is for the admins of its tenant.
_NOTICES = """
SELECT n.at, n.id, n.tenant_id, n.state, n.content, array(
  SELECT u.id FROM users u WHERE u.tenant_id = n.tenant_id AND u.telegram_user_id IS NOT NULL AND NOT u.disabled
    AND (u.id = n.user_id OR (n.user_id IS NULL AND u.role = 'admin')) ORDER BY u.id) AS users
FROM (SELECT *, CASE WHEN state = 'resolved' THEN resolved_at ELSE opened_at END AS at FROM notices) n
WHERE n.state <> 'waiting' AND (n.at, n.id) > (:at, :id) AND n.at < now() - CAST(:settled AS interval)
ORDER BY n.at, n.id LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class FoundPost:
    """A post that a saved search of a linked user found."""

    at: datetime
    id: UUID
    search_id: UUID
    tenant_id: UUID
    user_id: UUID
    name: str
    also: int


@dataclass(frozen=True, slots=True)
class ToldNotice:
    """Something that is wrong, or happened, or is well again; and whom to tell."""

    at: datetime
    id: UUID
    tenant_id: UUID
    state: str
    content: Mapping[str, Any]
    users: tuple[UUID, ...]


class TelegramAlerts(Store):
    """Of all tenants: each row says whose it is. `settled`: how old a row must be to be given out."""

    def __init__(self, database: AsyncEngine, *, settled: timedelta = SETTLED) -> None:
        super().__init__(database)
        self._settled = settled

    async def now(self) -> datetime:
        """The clock that stamps the rows."""
        found: datetime = await self._value("SELECT now()")
        return found

    async def found(self, at: datetime, post_id: UUID, search_id: UUID, *, limit: int) -> list[FoundPost]:
        """After this place."""
        values = {"at": at, "id": post_id, "search": search_id, "limit": limit, "settled": self._settled}
        return [FoundPost(*row) for row in await self._rows(_FOUND, values)]

    async def notices(self, at: datetime, notice_id: UUID, *, limit: int) -> list[ToldNotice]:
        values = {"at": at, "id": notice_id, "limit": limit, "settled": self._settled}
        return await self._all(ToldNotice, _NOTICES, values)
