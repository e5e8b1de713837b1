"""Posts as the stages need them: with their channel, files and album, as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.post import post_id
from telegram_assistant.stores.postgres.database import raw_transaction

_READ = """
SELECT p.id, p.channel_id, p.message_id, p.posted_at, p.text, p.urls, p.content_hash, p.grouped_id, p.details,
       p.deleted_at IS NOT NULL AS deleted, p.edited_at IS NOT NULL AS edited,
       c.tenant_id, c.title, c.username, i.group_id AS album_id, i.position AS album_place,
       (SELECT json_agg(json_build_object('position', m.position, 'kind', m.kind, 'sha256', m.sha256,
                 'mime', coalesce(o.mime, m.mime, ''), 'size', coalesce(o.size, m.size, 0), 'width', m.width,
                 'height', m.height, 'status', m.status, 'reason', m.reason, 'storage_key', o.storage_key)
               ORDER BY m.position)::text
        FROM post_media m LEFT JOIN media_objects o ON o.sha256 = m.sha256 WHERE m.post_id = p.id) AS files
FROM posts p JOIN channels c ON c.id = p.channel_id LEFT JOIN media_group_items i ON i.post_id = p.id
WHERE p.id = ANY($1)
"""


_SYSTEM = UUID(SYSTEM_TENANT)
_OF_TENANT = (
    "FROM posts p JOIN channels c ON c.id = p.channel_id WHERE coalesce(c.tenant_id, $2) = $1 AND p.deleted_at IS NULL"
)


class File(msgspec.Struct, frozen=True):
    """A file of a post, as far as it got."""

    position: int
    kind: str
    mime: str
    size: int
    status: str  # pending | stored | skipped | failed
    sha256: str | None = None
    width: int | None = None
    height: int | None = None
    reason: str | None = None
    storage_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """A post and what hangs on it."""

    post_id: UUID
    tenant_id: UUID
    channel_id: int
    channel_title: str
    channel_username: str | None
    message_id: int
    posted_at: datetime
    text: str
    urls: tuple[str, ...]
    content_hash: str
    grouped_id: int | None
    album_id: UUID | None
    album_place: int | None  # from 0
    details: dict[str, Any]
    deleted: bool
    edited: bool
    files: tuple[File, ...]

    @property
    def forward(self) -> tuple[int | None, int | None]:
        """Channel and message that it was forwarded from."""
        origin = self.details.get("forward") or {}
        return origin.get("channel_id"), origin.get("message_id")

    @property
    def replies_to(self) -> UUID | None:
        answered = self.details.get("reply_to") or {}
        if not answered.get("message_id"):
            return None
        return post_id(answered.get("channel_id") or self.channel_id, answered["message_id"])


class Materials:
    """Reads posts for the stages."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def of(self, post_ids: Sequence[UUID]) -> dict[UUID, Material]:
        """Those that are there; a post of a channel that was erased is not."""
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(_READ, list(post_ids))
        return {row["id"]: _material(row) for row in rows}

    async def tenants(self) -> list[UUID]:
        """Whose indexes there are: the system's for public channels, and those of tenants with private ones."""
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch("SELECT DISTINCT coalesce(tenant_id, $1) AS id FROM channels", _SYSTEM)
        return sorted({row["id"] for row in rows} | {_SYSTEM})

    async def count(self, tenant_id: UUID) -> int:
        async with raw_transaction(self._database) as connection:
            return int(await connection.fetchval(f"SELECT count(*) {_OF_TENANT}", tenant_id, _SYSTEM))

    async def ids_after(self, tenant_id: UUID, after: UUID | None, *, limit: int) -> list[UUID]:
        """Posts that belong into a tenant's indexes, in pieces."""
        statement = f"SELECT p.id {_OF_TENANT} AND p.id > $3 ORDER BY p.id LIMIT $4"
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(statement, tenant_id, _SYSTEM, after or UUID(int=0), limit)
        return [row["id"] for row in rows]


def _material(row: Any) -> Material:
    return Material(
        post_id=row["id"],
        tenant_id=row["tenant_id"] or _SYSTEM,
        channel_id=row["channel_id"],
        channel_title=row["title"],
        channel_username=row["username"],
        message_id=row["message_id"],
        posted_at=row["posted_at"],
        text=row["text"],
        urls=tuple(row["urls"]),
        content_hash=row["content_hash"],
        grouped_id=row["grouped_id"],
        album_id=row["album_id"],
        album_place=row["album_place"],
        details=msgspec.json.decode(row["details"]) if isinstance(row["details"], str) else row["details"],
        deleted=row["deleted"],
        edited=row["edited"],
        files=tuple(msgspec.json.decode(row["files"], type=list[File])) if row["files"] else (),
    )
