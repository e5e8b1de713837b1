"""Saved searches of users, and the alerts that they cause: one for a search and a post."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.saved_search import MOST_SEARCHES, Alert, DeliveryState, Parcel, SavedSearch
from telegram_assistant.errors import Reject
from telegram_assistant.language.documents import Candidate
from telegram_assistant.stores.postgres.database import Store, raw_transaction

OVERLAP = timedelta(minutes=2)  # that a document may take to be written: so much before `checked_at` is looked at again

_COLUMNS = "s.id, s.tenant_id, s.user_id, s.name, s.query, s.web, s.webhook_url, s.muted, s.created_at, s.checked_at"
# Of alerts whose posts the tenant still sees.
_UNREAD = """(SELECT count(*) FROM search_alerts a JOIN posts p ON p.id = a.post_id
  WHERE a.search_id = s.id AND a.read_at IS NULL AND a.story_of IS NULL AND s.web) AS unread"""
_DEAD = "(SELECT count(*) FROM search_alerts a WHERE a.search_id = s.id AND a.state = 'dead') AS dead"
_MINE = f"SELECT {_COLUMNS}, {_UNREAD}, {_DEAD} FROM saved_searches s WHERE s.user_id = :user"
_OWN = "id = :id AND tenant_id = :tenant AND user_id = :user"


class SavedSearches(Store):
    """The table `saved_searches`. Tenants may read it and nothing else: it is written here, for one user at a time."""

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> list[SavedSearch]:
        """The newest first."""
        statement = f"{_MINE} ORDER BY s.created_at DESC, s.id"
        return await self._all(SavedSearch, statement, {"user": user_id}, tenant=tenant_id)

    async def get(self, tenant_id: UUID, user_id: UUID, search_id: UUID) -> SavedSearch | None:
        values = {"user": user_id, "id": search_id}
        return await self._first(SavedSearch, f"{_MINE} AND s.id = :id", values, tenant=tenant_id)

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
        found: bytes | None = await self._value(f"SELECT webhook_secret FROM saved_searches WHERE {_OWN}", _own(saved))
        return found

    async def remove(self, saved: SavedSearch) -> None:
        await self._write(f"DELETE FROM saved_searches WHERE {_OWN}", saved)

    async def active(self) -> list[SavedSearch]:
        """Of all tenants, for the look for new posts."""
        statement = f"SELECT {_COLUMNS}, 0 AS unread, 0 AS dead FROM saved_searches s WHERE NOT s.muted ORDER BY s.id"
        return await self._all(SavedSearch, statement)

    async def position(self) -> tuple[datetime | None, datetime]:
        """Up to when everything was looked at for all of them (None: there are none), and what time it is."""
        statement = "SELECT min(checked_at) FILTER (WHERE NOT muted), now() FROM saved_searches"
        [(until, now)] = await self._rows(statement)
        return until, now

    async def checked(self, search_ids: Sequence[UUID], until: datetime) -> None:
        statement = (
            "UPDATE saved_searches SET checked_at = greatest(checked_at, CAST(:until AS timestamptz))"
            " WHERE id = ANY(:ids)"
        )
        await self._run(statement, {"ids": list(search_ids), "until": until})

    async def _write(self, statement: str, saved: SavedSearch, **values: Any) -> None:
        await self._run(statement, {**values, **_own(saved)})


def _own(saved: SavedSearch) -> dict[str, Any]:
    return {"id": saved.id, "tenant": saved.tenant_id, "user": saved.user_id}


KEPT = timedelta(days=90)

_TOLD = """
SELECT d.post_id, d.channel_id, d.posted_at, d.album_id, d.length, d.story_id, '{}'::real[] AS ranks
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
# Not more than a few of one search at once: an address that does not answer shall not keep the others waiting. A
# disabled user gets nothing.
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


class SearchAlerts(Store):
    """The table `search_alerts`."""

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
        return await self._all(Parcel, _DUE, {"most": most, "each": each})

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
        statement = "DELETE FROM search_alerts WHERE found_at < now() - CAST(:kept AS interval)"
        return await self._run(statement, {"kept": KEPT})

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
        return await self._all(Alert, _LIST, values, tenant=tenant_id)

    async def unread(self, tenant_id: UUID, user_id: UUID) -> int:
        statement = (
            "SELECT count(*) FROM search_alerts a JOIN saved_searches s ON s.id = a.search_id"
            " JOIN posts p ON p.id = a.post_id"
            " WHERE s.user_id = :user AND s.web AND a.read_at IS NULL AND a.story_of IS NULL"
        )
        return int(await self._value(statement, {"user": user_id}, tenant=tenant_id))

    async def read(self, tenant_id: UUID, user_id: UUID, *, search_id: UUID | None = None) -> int:
        """Everything that was found until now."""
        statement = (
            "UPDATE search_alerts a SET read_at = now() FROM saved_searches s WHERE s.id = a.search_id"
            " AND a.read_at IS NULL AND s.tenant_id = :tenant AND s.user_id = :user"
            " AND (CAST(:search AS uuid) IS NULL OR s.id = :search)"
        )
        values = {"tenant": tenant_id, "user": user_id, "search": search_id}
        return await self._run(statement, values)

    async def again(self, saved: SavedSearch) -> int:
        """What the webhook did not take is sent once more."""
        statement = (
            "UPDATE search_alerts SET state = 'waiting', attempts = 0, due_at = now(), error = ''"
            " WHERE search_id = :id AND tenant_id = :tenant AND state = 'dead'"
        )
        return await self._run(statement, {"id": saved.id, "tenant": saved.tenant_id})

    async def _set(self, parcel: Parcel, change: str, **values: Any) -> None:
        statement = f"UPDATE search_alerts SET {change} WHERE search_id = :search AND post_id = :post"
        await self._run(statement, {"search": parcel.search_id, "post": parcel.post_id, **values})
