"""What may be recommended, read as a tenant: posts about given topics, channels that write about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import as_tenant

MOST_POSTS = 600

_FITS = "(d.topics && CAST(:labels AS text[]) OR d.tags && CAST(:labels AS text[]))"
_POSTS = f"""
SELECT d.post_id, d.channel_id, d.posted_at, d.signature, d.album_id, d.topics || d.tags AS labels
FROM search_documents d JOIN channels c ON c.id = d.channel_id
WHERE d.posted_at >= :since AND d.posted_at < :until AND NOT d.deleted AND c.status IN ('active', 'dead') AND {_FITS}
ORDER BY d.posted_at DESC, d.post_id LIMIT :most
"""
_CHANNELS = """
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
WHERE c.status IN ('active', 'dead') AND n.fitting >= :least
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
# What anybody can see of a public channel in Telegram.
_PUBLIC = """
SELECT id, title, username FROM channels
WHERE id = ANY(:ids) AND tenant_id IS NULL AND username IS NOT NULL AND status IN ('active', 'dead') AND NOT is_group
"""


@dataclass(frozen=True, slots=True)
class FittingPost:
    """A post about one of the topics."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    signature: bytes
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


class InterestPosts:
    """Reads over the full-text index."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def posts(
        self, tenant_id: UUID, labels: Sequence[str], *, since: datetime, until: datetime
    ) -> list[FittingPost]:
        """The newest, of a bounded number."""
        values = {"labels": list(labels), "since": since, "until": until, "most": MOST_POSTS}
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_POSTS), values)
            return [
                FittingPost(
                    row.post_id, row.channel_id, row.posted_at, row.signature, row.album_id, frozenset(row.labels)
                )
                for row in rows
            ]

    async def channels(
        self, tenant_id: UUID, labels: Sequence[str], *, since: datetime, until: datetime, least: int
    ) -> list[FittingChannel]:
        values = {"labels": list(labels), "since": since, "until": until, "least": least}
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_CHANNELS), values)
            return [
                FittingChannel(row.id, row.title, row.username, row.posts, row.fitting, tuple(row.labels))
                for row in rows
            ]

    async def origins(
        self, tenant_id: UUID, labels: Sequence[str], *, since: datetime, until: datetime, limit: int
    ) -> list[Origin]:
        """Those that are forwarded by most channels first. A private one is nobody's business."""
        values = {"labels": list(labels), "since": since, "until": until, "most": limit}
        async with as_tenant(self._database, tenant_id) as connection:
            rows = list(await connection.execute(text(_ORIGINS), values))
        async with self._database.connect() as system:
            found = await system.execute(text(_PUBLIC), {"ids": [row.id for row in rows]})
            public = {row.id: row for row in found}
        return [
            Origin(row.id, public[row.id].title, public[row.id].username, row.posts, row.channels)
            for row in rows
            if row.id in public
        ]
