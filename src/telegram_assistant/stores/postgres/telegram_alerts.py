"""What has to be told to people who have linked their Telegram, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

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
# What is for nobody in particular is for the admins of its tenant.
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


class TelegramAlerts:
    """Of all tenants: each row says whose it is. `settled`: how old a row must be to be given out."""

    def __init__(self, database: AsyncEngine, *, settled: timedelta = SETTLED) -> None:
        self._database = database
        self._settled = settled

    async def now(self) -> datetime:
        """The clock that stamps the rows."""
        async with self._database.connect() as connection:
            found: datetime = (await connection.execute(text("SELECT now()"))).scalar_one()
        return found

    async def found(self, at: datetime, post_id: UUID, search_id: UUID, *, limit: int) -> list[FoundPost]:
        """After this place."""
        values = {"at": at, "id": post_id, "search": search_id, "limit": limit, "settled": self._settled}
        async with self._database.connect() as connection:
            return [FoundPost(*row) for row in await connection.execute(text(_FOUND), values)]

    async def notices(self, at: datetime, notice_id: UUID, *, limit: int) -> list[ToldNotice]:
        values = {"at": at, "id": notice_id, "limit": limit, "settled": self._settled}
        async with self._database.connect() as connection:
            rows = await connection.execute(text(_NOTICES), values)
            return [ToldNotice(**{**row, "users": tuple(row["users"])}) for row in rows.mappings()]
