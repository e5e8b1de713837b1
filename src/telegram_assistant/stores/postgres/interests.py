"""Interests of users: noted with every search and view, changed and forgotten by whom they belong to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.interests import DECAY, LEAST_WEIGHT, MOST_COUNTED, MOST_TOPICS, Act, Interest
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import as_tenant

_COLUMNS = "topic, queries, views, chosen, last_at"
_LEFT = "exp(-greatest(0, extract(epoch FROM CAST(:now AS timestamptz) - i.last_at)) / :decay)"
# What somebody never wants is not learned; one who has enough topics learns no new ones.
_NOTE = f"""
INSERT INTO interests AS i (user_id, topic, tenant_id, queries, views, last_at)
SELECT :user, n.topic, :tenant, :query, :view, :now FROM unnest(CAST(:topics AS text[])) AS n(topic)
JOIN users u ON u.id = :user AND u.tenant_id = :tenant
WHERE (SELECT count(*) FROM interests o WHERE o.user_id = :user) < :most
  OR EXISTS (SELECT 1 FROM interests o WHERE o.user_id = :user AND o.topic = n.topic)
ON CONFLICT (user_id, topic) DO UPDATE SET
  queries = least(:many, i.queries * {_LEFT} + excluded.queries),
  views = least(:many, i.views * {_LEFT} + excluded.views), last_at = greatest(i.last_at, excluded.last_at)
WHERE i.chosen IS DISTINCT FROM 0
"""
_CHOOSE = """
INSERT INTO interests AS i (user_id, topic, tenant_id, chosen, last_at)
VALUES (:user, :topic, :tenant, :chosen, :now)
ON CONFLICT (user_id, topic) DO UPDATE SET chosen = excluded.chosen
"""
_FADED = f"""
DELETE FROM interests i WHERE i.chosen IS NULL AND {_LEFT} < :least
"""


@dataclass(frozen=True, slots=True)
class Person:
    """A user and what is known of their interests."""

    tenant_id: UUID
    user_id: UUID
    interests: tuple[Interest, ...]


class Interests:
    """The table `interests`. Tenants may read it; it is written here, for one user at a time."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> list[Interest]:
        statement = text(f"SELECT {_COLUMNS} FROM interests WHERE user_id = :user ORDER BY topic")
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(statement, {"user": user_id})
            return [Interest(**row) for row in rows.mappings()]

    async def note(self, tenant_id: UUID, user_id: UUID, act: Act, topics: Sequence[str], *, now: datetime) -> None:
        values = {
            **_own(tenant_id, user_id),
            "topics": sorted(set(topics)),
            "query": float(act is Act.SEARCH),
            "view": float(act is not Act.SEARCH),
            "many": MOST_COUNTED,
            "most": MOST_TOPICS,
            **_decay(now),
        }
        async with self._database.begin() as connection:
            await connection.execute(text(_NOTE), values)

    async def choose(self, tenant_id: UUID, user_id: UUID, topic: str, chosen: float | None, *, now: datetime) -> None:
        """Raises Reject for one too many."""
        values = {**_own(tenant_id, user_id), "topic": topic, "chosen": chosen, "now": now}
        async with self._database.begin() as connection:
            # The lock is on the user: two requests at once may not both be the last that is allowed.
            await connection.execute(text("SELECT 1 FROM users WHERE id = :user FOR UPDATE"), values)
            others = text("SELECT count(*) FROM interests WHERE user_id = :user AND topic <> :topic")
            if (await connection.execute(others, values)).scalar_one() >= MOST_TOPICS:
                raise Reject(f"there are {MOST_TOPICS} interests already; forget one first")
            await connection.execute(text(_CHOOSE), values)

    async def forget(self, tenant_id: UUID, user_id: UUID, topic: str | None = None) -> int:
        """One of them, or all; how many there were."""
        narrowed = "" if topic is None else " AND topic = :topic"
        statement = text(f"DELETE FROM interests WHERE user_id = :user AND tenant_id = :tenant{narrowed}")
        async with self._database.begin() as connection:
            done = await connection.execute(statement, {**_own(tenant_id, user_id), "topic": topic})
            return int(done.rowcount)

    async def forget_faded(self, now: datetime) -> None:
        """What nobody asked for in a long time."""
        async with self._database.begin() as connection:
            await connection.execute(text(_FADED), {"least": LEAST_WEIGHT, **_decay(now)})

    async def of_channels(self, channel_ids: Collection[int]) -> dict[int, set[str]]:
        """By channel what those want who see its posts; a weight of zero says that one does not."""
        statement = text(
            "SELECT DISTINCT s.channel_id, i.topic FROM subscriptions s JOIN interests i ON i.user_id = s.user_id"
            " JOIN channels c ON c.id = s.channel_id AND (c.tenant_id IS NULL OR c.tenant_id = s.tenant_id)"
            " WHERE s.channel_id = ANY(:channels) AND coalesce(i.chosen, 1) > 0"
        )
        found: dict[int, set[str]] = defaultdict(set)
        async with self._database.connect() as connection:
            for channel_id, topic in await connection.execute(statement, {"channels": list(channel_ids)}):
                found[channel_id].add(topic)
        return dict(found)

    async def everybody(self) -> list[Person]:
        """Of all tenants, for whoever brings them to the graph; also people without any."""
        statement = text(
            f"SELECT u.id AS user_id, u.tenant_id, {', '.join(f'i.{one}' for one in _COLUMNS.split(', '))} FROM users u"
            " LEFT JOIN interests i ON i.user_id = u.id WHERE u.role <> 'system' ORDER BY u.id, i.topic"
        )
        found: dict[tuple[UUID, UUID], list[Interest]] = defaultdict(list)
        async with self._database.connect() as connection:
            for row in (await connection.execute(statement)).mappings():
                known = found[row["tenant_id"], row["user_id"]]
                if row["topic"] is not None:
                    known.append(Interest(**{name: row[name] for name in _COLUMNS.split(", ")}))
        return [Person(tenant_id, user_id, tuple(known)) for (tenant_id, user_id), known in found.items()]


def _own(tenant_id: UUID, user_id: UUID) -> dict[str, Any]:
    return {"tenant": tenant_id, "user": user_id}


def _decay(now: datetime) -> dict[str, Any]:
    return {"now": now, "decay": DECAY.total_seconds()}
