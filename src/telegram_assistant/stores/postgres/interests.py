"""Topics that a user is interested in, and posts that fit them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.interests import DECAY, LEAST_WEIGHT, MOST_COUNTED, MOST_TOPICS, Act, Interest
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.channels import WATCHED
from telegram_assistant.stores.postgres.database import Store, as_value

_COLUMNS = "topic, queries, views, chosen, last_at"
_LEFT = "exp(-greatest(0, extract(epoch FROM CAST(:now AS timestamptz) - i.last_at)) / :decay)"
# A topic that a user never wants is not learned; a user with enough topics learns no new ones.
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


class Interests(Store):
    """The table `interests`. Tenants may read it; it is written here, for one user at a time."""

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> list[Interest]:
        statement = f"SELECT {_COLUMNS} FROM interests WHERE user_id = :user ORDER BY topic"
        return await self._all(Interest, statement, {"user": user_id}, tenant=tenant_id)

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
        await self._run(_NOTE, values)

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
        statement = f"DELETE FROM interests WHERE user_id = :user AND tenant_id = :tenant{narrowed}"
        return await self._run(statement, {**_own(tenant_id, user_id), "topic": topic})

    async def forget_faded(self, now: datetime) -> None:
        """What was not asked for in a long time."""
        await self._run(_FADED, {"least": LEAST_WEIGHT, **_decay(now)})

    async def of_channels(self, channel_ids: Collection[int]) -> dict[int, set[str]]:
        """By channel the topics of the users who see its posts, without those of weight zero."""
        statement = (
            "SELECT DISTINCT s.channel_id, i.topic FROM subscriptions s JOIN interests i ON i.user_id = s.user_id"
            " JOIN channels c ON c.id = s.channel_id AND (c.tenant_id IS NULL OR c.tenant_id = s.tenant_id)"
            " WHERE s.channel_id = ANY(:channels) AND coalesce(i.chosen, 1) > 0"
        )
        found: dict[int, set[str]] = defaultdict(set)
        for channel_id, topic in await self._rows(statement, {"channels": list(channel_ids)}):
            found[channel_id].add(topic)
        return dict(found)

    async def people(self) -> list[Person]:
        """Of all tenants, to be brought to the graph; also people without any."""
        statement = (
            f"SELECT u.id AS user_id, u.tenant_id, {', '.join(f'i.{one}' for one in _COLUMNS.split(', '))} FROM users u"
            " LEFT JOIN interests i ON i.user_id = u.id WHERE u.role <> 'system' ORDER BY u.id, i.topic"
        )
        found: dict[tuple[UUID, UUID], list[Interest]] = defaultdict(list)
        for row in await self._rows(statement):
            known = found[row.tenant_id, row.user_id]
            if row.topic is not None:
                known.append(as_value(Interest, row))
        return [Person(tenant_id, user_id, tuple(known)) for (tenant_id, user_id), known in found.items()]


def _own(tenant_id: UUID, user_id: UUID) -> dict[str, Any]:
    return {"tenant": tenant_id, "user": user_id}


def _decay(now: datetime) -> dict[str, Any]:
    return {"now": now, "decay": DECAY.total_seconds()}


MOST_POSTS = 600

_FITS = "(d.topics && CAST(:labels AS text[]) OR d.tags && CAST(:labels AS text[]))"
_POSTS = f"""
SELECT d.post_id, d.channel_id, d.posted_at, d.story_id, d.album_id, d.topics || d.tags AS labels
FROM search_documents d JOIN channels c ON c.id = d.channel_id
WHERE d.posted_at >= :since AND d.posted_at < :until AND NOT d.deleted AND c.{WATCHED} AND {_FITS}
ORDER BY d.posted_at DESC, d.post_id LIMIT :most
"""
_CHANNELS = f"""
WITH recent AS (
    SELECT d.channel_id, d.topics || d.tags AS labels FROM search_documents d
    WHERE d.posted_at >= :since AND d.posted_at < :until AND NOT d.deleted),
  counted AS (
    SELECT channel_id, count(*)::int AS posts, count(*) FILTER (WHERE labels && CAST(:labels AS text[]))::int AS fitting
    FROM recent GROUP BY channel_id),
  named AS (
    SELECT channel_id, array_agg(DISTINCT label) AS labels FROM recent, unnest(labels) AS label
    WHERE label = ANY(CAST(:labels AS text[])) GROUP BY channel_id)
SELECT c.id, c.title, c.username, n.posts, n.fitting, m.labels
FROM channels c JOIN counted n ON n.channel_id = c.id JOIN named m ON m.channel_id = c.id
WHERE c.{WATCHED} AND n.fitting >= :least
"""
_ORIGINS = f"""
SELECT (p.details->'forward'->>'channel_id')::bigint AS id, count(*)::int AS posts,
  count(DISTINCT p.channel_id)::int AS channels
FROM search_documents d JOIN posts p ON p.id = d.post_id
WHERE d.posted_at >= :since AND d.posted_at < :until AND NOT d.deleted AND {_FITS}
  AND p.details->'forward'->>'channel_id' IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM channels c WHERE c.id = (p.details->'forward'->>'channel_id')::bigint)
GROUP BY 1 ORDER BY channels DESC, posts DESC, id LIMIT :most
"""
# What a public channel shows to all in Telegram.
_PUBLIC = f"""
SELECT id, title, username FROM channels
WHERE id = ANY(:ids) AND tenant_id IS NULL AND username IS NOT NULL AND {WATCHED} AND NOT is_group
"""


@dataclass(frozen=True, slots=True)
class FittingPost:
    """A post about one of the topics."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    story_id: UUID | None
    album_id: UUID | None
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class FittingChannel:
    """A channel that the tenant watches, and how much of it is about the topics."""

    channel_id: int
    title: str
    username: str | None
    posts: int
    fitting: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """A public channel that watched ones forward from, and that the tenant does not watch."""

    channel_id: int
    title: str
    username: str
    posts: int
    channels: int  # that forward it


class InterestPosts(Store):
    """Reads over the full-text index."""

    async def posts(
        self, tenant_id: UUID, labels: Sequence[str], *, since: datetime, until: datetime
    ) -> list[FittingPost]:
        """The newest, of a bounded number."""
        values = {"labels": list(labels), "since": since, "until": until, "most": MOST_POSTS}
        rows = await self._rows(_POSTS, values, tenant=tenant_id)
        return [
            FittingPost(row.post_id, row.channel_id, row.posted_at, row.story_id, row.album_id, frozenset(row.labels))
            for row in rows
        ]

    async def channels(
        self, tenant_id: UUID, labels: Sequence[str], *, since: datetime, until: datetime, least: int
    ) -> list[FittingChannel]:
        values = {"labels": list(labels), "since": since, "until": until, "least": least}
        rows = await self._rows(_CHANNELS, values, tenant=tenant_id)
        return [
            FittingChannel(row.id, row.title, row.username, row.posts, row.fitting, tuple(row.labels)) for row in rows
        ]

    async def origins(
        self, tenant_id: UUID, labels: Sequence[str], *, since: datetime, until: datetime, limit: int
    ) -> list[Origin]:
        """Those that are forwarded by most channels first. Private ones are left out."""
        values = {"labels": list(labels), "since": since, "until": until, "most": limit}
        rows = list(await self._rows(_ORIGINS, values, tenant=tenant_id))
        async with self._database.connect() as system:
            found = await system.execute(text(_PUBLIC), {"ids": [row.id for row in rows]})
            public = {row.id: row for row in found}
        return [
            Origin(row.id, public[row.id].title, public[row.id].username, row.posts, row.channels)
            for row in rows
            if row.id in public
        ]
