"""What a digest is made from, read as its tenant (G7): posts with their reach, and how well channels are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.digests import PostNow
from telegram_assistant.domain.post import post_url
from telegram_assistant.stores.postgres.database import as_tenant

_FACTS = """
SELECT p.id, p.channel_id, p.message_id, p.posted_at, p.text, p.version, p.content_hash, p.views, p.forwards,
  p.details->'poll'->>'question' AS question, c.title, c.username, d.topics, d.tags, d.signature
FROM posts p JOIN channels c ON c.id = p.channel_id LEFT JOIN search_documents d ON d.post_id = p.id
WHERE p.id = ANY(:ids) AND p.deleted_at IS NULL
"""
_NOW = "SELECT id, version, content_hash, text, edited_at, deleted_at FROM posts WHERE id = ANY(:ids)"
_COUNT = """
SELECT count(*) FROM posts WHERE channel_id = ANY(:channels) AND posted_at >= :since AND posted_at < :until
  AND deleted_at IS NULL
"""
_STANDINGS = """
SELECT c.id, c.title, c.username, c.status, c.last_success_at, c.last_error, c.failures,
  asked.stop - asked.start - coalesce((SELECT sum(upper(r) - lower(r))
    FROM unnest(c.coverage * int8multirange(int8range(asked.start, asked.stop))) AS r), 0)::bigint AS unknown
FROM channels c, LATERAL (SELECT coalesce(c.requested_from, c.newest_id + 1) AS start,
  greatest(c.requested_from, c.newest_id + 1) AS stop) AS asked
WHERE c.status NOT IN ('removed', 'linked') ORDER BY c.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A post, as far as a digest needs it."""

    post_id: UUID
    channel_id: int
    channel: str
    url: str
    posted_at: datetime
    text: str
    version: int
    content_hash: str
    views: int
    forwards: int
    labels: tuple[str, ...]  # topics and tags
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How well a channel is known."""

    channel_id: int
    channel: str
    status: str
    unknown: int  # message ids that nobody can speak for
    last_success_at: datetime | None
    failures: int
    last_error: str


class DigestPosts:
    """Reads as a tenant. What it may not see is not there."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def standings(self, tenant_id: UUID) -> list[Standing]:
        """All channels of the tenant, without groups that are only read for comments."""
        async with as_tenant(self._database, tenant_id) as connection:
            return [
                Standing(
                    channel_id=row.id,
                    channel=row.title,
                    status=row.status,
                    unknown=row.unknown,
                    last_success_at=row.last_success_at,
                    failures=row.failures,
                    last_error=row.last_error or "",
                )
                for row in await connection.execute(text(_STANDINGS))
            ]

    async def count(self, tenant_id: UUID, channels: Sequence[int], since: datetime, until: datetime) -> int:
        values = {"channels": list(channels), "since": since, "until": until}
        async with as_tenant(self._database, tenant_id) as connection:
            return int((await connection.execute(text(_COUNT), values)).scalar_one())

    async def facts(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, Facts]:
        """Of posts that are not deleted."""
        if not post_ids:
            return {}
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_FACTS), {"ids": list(post_ids)})
            return {row.id: _facts(row) for row in rows}

    async def now(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, PostNow]:
        """Cited posts as they are, deleted ones too."""
        if not post_ids:
            return {}
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_NOW), {"ids": list(post_ids)})
            return {
                row.id: PostNow(
                    post_id=row.id,
                    version=row.version,
                    content_hash=row.content_hash,
                    text=row.text,
                    edited_at=row.edited_at,
                    deleted_at=row.deleted_at,
                )
                for row in rows
            }


def _facts(row: Row[Any]) -> Facts:
    return Facts(
        post_id=row.id,
        channel_id=row.channel_id,
        channel=row.title,
        url=post_url(row.username, row.channel_id, row.message_id),
        posted_at=row.posted_at,
        text="\n".join(part for part in (row.text, row.question) if part),
        version=row.version,
        content_hash=row.content_hash,
        views=row.views or 0,
        forwards=row.forwards or 0,
        labels=(*(row.topics or ()), *(row.tags or ())),
        signature=row.signature or b"",
    )
