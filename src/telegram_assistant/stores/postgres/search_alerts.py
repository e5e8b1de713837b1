"""What saved searches found: one row for a search and a post, so that nobody is told of a post twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.saved_search import Alert, DeliveryState, Parcel, SavedSearch
from telegram_assistant.language.documents import Candidate
from telegram_assistant.stores.postgres.database import as_tenant, raw_transaction

KEPT = timedelta(days=90)

_TOLD = """
SELECT d.post_id, d.channel_id, d.posted_at, d.album_id, d.length, d.signature, '{}'::real[] AS ranks
FROM search_alerts a JOIN search_documents d ON d.post_id = a.post_id
WHERE a.search_id = $1 AND a.story_of IS NULL AND d.posted_at BETWEEN $2 AND $3
"""
_ADD = """
INSERT INTO search_alerts (search_id, post_id, tenant_id, story_of, state, read_at)
SELECT s.id, n.post_id, s.tenant_id, n.story_of,
  CASE WHEN n.story_of IS NULL AND s.webhook_url IS NOT NULL AND NOT u.disabled THEN 'waiting' ELSE 'shown' END,
  CASE WHEN s.web THEN NULL ELSE now() END
FROM saved_searches s JOIN users u ON u.id = s.user_id CROSS JOIN unnest($2::uuid[], $3::uuid[]) AS n(post_id, story_of)
JOIN posts p ON p.id = n.post_id
WHERE s.id = $1 ON CONFLICT DO NOTHING RETURNING post_id, story_of
"""
# Not more than a few of one search at once: an address that does not answer shall not keep the others waiting. Whoever
# is kept out gets nothing, wherever it went before.
_DUE = """
SELECT * FROM (
  SELECT a.search_id, a.post_id, a.tenant_id, s.name, s.query, s.webhook_url AS url, s.webhook_secret AS secret,
    a.attempts, a.found_at, row_number() OVER (PARTITION BY a.search_id ORDER BY a.due_at, a.post_id) AS place
  FROM search_alerts a JOIN saved_searches s ON s.id = a.search_id JOIN users u ON u.id = s.user_id
  WHERE a.state = 'waiting' AND a.due_at <= now() AND s.webhook_url IS NOT NULL AND s.webhook_secret IS NOT NULL
    AND NOT u.disabled
) due WHERE place <= :each ORDER BY place, found_at LIMIT :most
"""
_LIST = """
SELECT a.search_id, s.name AS search_name, a.post_id, a.found_at, a.read_at, a.state, a.attempts, a.due_at, a.error,
  (SELECT count(*) FROM search_alerts o WHERE o.search_id = a.search_id AND o.story_of = a.post_id) AS also
FROM search_alerts a JOIN saved_searches s ON s.id = a.search_id JOIN posts p ON p.id = a.post_id
WHERE s.user_id = :user AND a.story_of IS NULL
  AND (CAST(:search AS uuid) IS NULL OR a.search_id = :search)
  AND (CAST(:state AS text) IS NULL OR a.state = :state)
  AND (CAST(:moment AS timestamptz) IS NULL OR (a.found_at, a.search_id, a.post_id) < (:moment, :last_search, :last))
ORDER BY a.found_at DESC, a.search_id DESC, a.post_id DESC LIMIT :limit
"""
Place = tuple[datetime, UUID, UUID]


class SearchAlerts:
    """The table `search_alerts`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def told(self, search_id: UUID, since: datetime, until: datetime) -> list[Candidate]:
        """Posts of that time that a search told of, as their documents have them."""
        async with raw_transaction(self._database) as connection:
            return [Candidate(*row) for row in await connection.fetch(_TOLD, search_id, since, until)]

    async def add(self, search_id: UUID, found: Sequence[tuple[UUID, UUID | None]]) -> list[UUID]:
        """Posts with the one that told their story before, if any. Comes back: whom to tell of, those not known yet."""
        async with raw_transaction(self._database) as connection:
            posts, stories = [one for one, _ in found], [story for _, story in found]
            rows = await connection.fetch(_ADD, search_id, posts, stories)
        return [row["post_id"] for row in rows if row["story_of"] is None]

    async def due(self, *, most: int, each: int) -> list[Parcel]:
        """What is to be sent now, at most `each` of one search."""
        async with self._database.connect() as connection:
            rows = await connection.execute(text(_DUE), {"most": most, "each": each})
            fields = Parcel.__dataclass_fields__
            return [Parcel(**{name: row[name] for name in fields}) for row in rows.mappings()]

    async def delivered(self, parcel: Parcel) -> None:
        await self._set(parcel, "state = 'delivered', delivered_at = now(), attempts = attempts + 1, error = ''")

    async def failed(self, parcel: Parcel, error: str, again_in: float | None) -> None:
        """After `again_in` seconds once more; None: never again."""
        await self._set(
            parcel,
            "attempts = attempts + 1, error = :error, state = :state,"
            " due_at = now() + make_interval(secs => CAST(:wait AS double precision))",
            error=error[:500],
            wait=again_in or 0.0,
            state=DeliveryState.DEAD if again_in is None else DeliveryState.WAITING,
        )

    async def prune(self) -> int:
        """Old ones: their posts are too old to be told of again."""
        async with self._database.begin() as connection:
            gone = await connection.execute(
                text("DELETE FROM search_alerts WHERE found_at < now() - CAST(:kept AS interval)"), {"kept": KEPT}
            )
            return gone.rowcount

    async def of_user(
        self,
        tenant_id: UUID,
        user_id: UUID,
        *,
        limit: int,
        search_id: UUID | None = None,
        state: DeliveryState | None = None,
        after: Place | None = None,
    ) -> list[Alert]:
        """The newest first."""
        moment, last_search, last = after or (None, None, None)
        values: dict[str, Any] = {"user": user_id, "search": search_id, "state": state, "limit": limit}
        values |= {"moment": moment, "last_search": last_search, "last": last}
        async with as_tenant(self._database, tenant_id) as connection:
            return [_alert(row) for row in (await connection.execute(text(_LIST), values)).mappings()]

    async def unread(self, tenant_id: UUID, user_id: UUID) -> int:
        statement = text(
            "SELECT count(*) FROM search_alerts a JOIN saved_searches s ON s.id = a.search_id"
            " JOIN posts p ON p.id = a.post_id"
            " WHERE s.user_id = :user AND s.web AND a.read_at IS NULL AND a.story_of IS NULL"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            return int((await connection.execute(statement, {"user": user_id})).scalar_one())

    async def read(self, tenant_id: UUID, user_id: UUID, *, search_id: UUID | None = None) -> int:
        """Everything that was found until now."""
        statement = text(
            "UPDATE search_alerts a SET read_at = now() FROM saved_searches s WHERE s.id = a.search_id"
            " AND a.read_at IS NULL AND s.tenant_id = :tenant AND s.user_id = :user"
            " AND (CAST(:search AS uuid) IS NULL OR s.id = :search)"
        )
        values = {"tenant": tenant_id, "user": user_id, "search": search_id}
        async with self._database.begin() as connection:
            return (await connection.execute(statement, values)).rowcount

    async def again(self, saved: SavedSearch) -> int:
        """What the webhook did not take is sent once more."""
        statement = text(
            "UPDATE search_alerts SET state = 'waiting', attempts = 0, due_at = now(), error = ''"
            " WHERE search_id = :id AND tenant_id = :tenant AND state = 'dead'"
        )
        async with self._database.begin() as connection:
            return (await connection.execute(statement, {"id": saved.id, "tenant": saved.tenant_id})).rowcount

    async def _set(self, parcel: Parcel, change: str, **values: Any) -> None:
        statement = f"UPDATE search_alerts SET {change} WHERE search_id = :search AND post_id = :post"
        async with self._database.begin() as connection:
            await connection.execute(text(statement), {"search": parcel.search_id, "post": parcel.post_id, **values})


def _alert(row: RowMapping) -> Alert:
    return Alert(**{**row, "state": DeliveryState(row["state"])})
