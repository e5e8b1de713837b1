"""Saved searches: read as their tenant, and only by whom they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.saved_search import MOST_SEARCHES, SavedSearch
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import as_tenant

OVERLAP = timedelta(minutes=2)  # that a document may take to be written: so much before `checked_at` is looked at again

_COLUMNS = "s.id, s.tenant_id, s.user_id, s.name, s.query, s.web, s.webhook_url, s.muted, s.created_at, s.checked_at"
# Of alerts whose posts the tenant still sees.
_UNREAD = """(SELECT count(*) FROM search_alerts a JOIN posts p ON p.id = a.post_id
  WHERE a.search_id = s.id AND a.read_at IS NULL AND a.story_of IS NULL AND s.web) AS unread"""
_DEAD = "(SELECT count(*) FROM search_alerts a WHERE a.search_id = s.id AND a.state = 'dead') AS dead"
_MINE = f"SELECT {_COLUMNS}, {_UNREAD}, {_DEAD} FROM saved_searches s WHERE s.user_id = :user"
_OWN = "id = :id AND tenant_id = :tenant AND user_id = :user"


class SavedSearches:
    """The table `saved_searches`. Tenants may read it and nothing else: it is written here, for one user at a time."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> list[SavedSearch]:
        """The newest first."""
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(f"{_MINE} ORDER BY s.created_at DESC, s.id"), {"user": user_id})
            return [SavedSearch(**row) for row in rows.mappings()]

    async def get(self, tenant_id: UUID, user_id: UUID, search_id: UUID) -> SavedSearch | None:
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(f"{_MINE} AND s.id = :id"), {"user": user_id, "id": search_id})
            row = rows.mappings().first()
        return None if row is None else SavedSearch(**row)

    async def add(self, tenant_id: UUID, user_id: UUID, name: str, query: str, *, web: bool = True) -> UUID:
        """Raises Reject for one too many."""
        values = {"tenant": tenant_id, "user": user_id, "name": name, "query": query, "web": web}
        async with self._database.begin() as connection:
            # The lock is on the user: two requests at once may not both be the last that is allowed.
            await connection.execute(text("SELECT 1 FROM users WHERE id = :user FOR UPDATE"), values)
            count = await connection.execute(text("SELECT count(*) FROM saved_searches WHERE user_id = :user"), values)
            if count.scalar_one() >= MOST_SEARCHES:
                raise Reject(f"there are {MOST_SEARCHES} saved searches already; remove one first")
            made = await connection.execute(
                text(
                    "INSERT INTO saved_searches (tenant_id, user_id, name, query, web)"
                    " VALUES (:tenant, :user, :name, :query, :web) RETURNING id"
                ),
                values,
            )
            found: UUID = made.scalar_one()
        return found

    async def change(
        self, saved: SavedSearch, *, name: str | None = None, web: bool | None = None, muted: bool | None = None
    ) -> None:
        """Only what is given. Posts that came while it was muted are not told of afterwards."""
        statement = (
            "UPDATE saved_searches SET name = coalesce(CAST(:name AS text), name),"
            " web = coalesce(CAST(:web AS boolean), web),"
            " checked_at = CASE WHEN muted AND NOT coalesce(CAST(:muted AS boolean), muted) "
            " THEN now() + CAST(:overlap AS interval) ELSE checked_at END,"
            f" muted = coalesce(CAST(:muted AS boolean), muted) WHERE {_OWN}"
        )
        await self._write(statement, saved, name=name, web=web, muted=muted, overlap=OVERLAP)

    async def set_webhook(self, saved: SavedSearch, url: str | None, secret: bytes | None) -> None:
        """`secret`: sealed."""
        await self._write(
            f"UPDATE saved_searches SET webhook_url = :url, webhook_secret = :secret WHERE {_OWN}",
            saved,
            url=url,
            secret=secret,
        )

    async def secret(self, saved: SavedSearch) -> bytes | None:
        """Sealed."""
        async with self._database.connect() as connection:
            rows = await connection.execute(
                text(f"SELECT webhook_secret FROM saved_searches WHERE {_OWN}"), _own(saved)
            )
            found: bytes | None = rows.scalar_one_or_none()
        return found

    async def remove(self, saved: SavedSearch) -> None:
        await self._write(f"DELETE FROM saved_searches WHERE {_OWN}", saved)

    async def active(self) -> list[SavedSearch]:
        """Of all tenants, for whoever looks for what is new."""
        statement = f"SELECT {_COLUMNS}, 0 AS unread, 0 AS dead FROM saved_searches s WHERE NOT s.muted ORDER BY s.id"
        async with self._database.connect() as connection:
            rows = await connection.execute(text(statement))
            return [SavedSearch(**row) for row in rows.mappings()]

    async def position(self) -> tuple[datetime | None, datetime]:
        """Up to when everything was looked at for all of them (None: there are none), and what time it is."""
        statement = text("SELECT min(checked_at) FILTER (WHERE NOT muted), now() FROM saved_searches")
        async with self._database.connect() as connection:
            row = (await connection.execute(statement)).one()
        return row[0], row[1]

    async def checked(self, search_ids: Sequence[UUID], until: datetime) -> None:
        statement = text(
            "UPDATE saved_searches SET checked_at = greatest(checked_at, CAST(:until AS timestamptz))"
            " WHERE id = ANY(:ids)"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"ids": list(search_ids), "until": until})

    async def _write(self, statement: str, saved: SavedSearch, **values: Any) -> None:
        async with self._database.begin() as connection:
            await connection.execute(text(statement), {**values, **_own(saved)})


def _own(saved: SavedSearch) -> dict[str, Any]:
    return {"id": saved.id, "tenant": saved.tenant_id, "user": saved.user_id}
