"""Files of posts for whoever may see them: what became of each, what was seen on it, and where it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.understanding import Seen
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_assistant.stores.postgres.post_values import ShownFile

_FILES = """
SELECT m.post_id, m.position, m.kind, m.status, m.reason, coalesce(o.mime, m.mime) AS mime,
  coalesce(o.size, m.size) AS size, m.width, m.height, m.duration, m.name, m.sha256, r.data::text AS seen
FROM post_media m JOIN posts p ON p.id = m.post_id LEFT JOIN media_objects o ON o.sha256 = m.sha256
LEFT JOIN picture_results r ON r.sha256 = m.sha256
WHERE m.post_id = ANY(:ids) ORDER BY p.message_id, m.position
"""
_OBJECT = """
SELECT o.sha256, o.size, o.storage_key,
  (SELECT m.name FROM post_media m WHERE m.sha256 = o.sha256 AND m.name IS NOT NULL LIMIT 1) AS name
FROM media_objects o WHERE o.sha256 = :sha256 AND o.evicted_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file in the media store, as a tenant may have it."""

    sha256: str
    size: int
    storage_key: str
    name: str | None  # as somebody called it


class PostFiles:
    """Reads as a tenant."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def kept(self, tenant_id: UUID, sha256: str) -> KeptFile | None:
        """None unless the tenant sees a post that has this file, now."""
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(text(_OBJECT), {"sha256": sha256})).one_or_none()
        return KeptFile(*row) if row is not None else None

    async def of(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, list[ShownFile]]:
        """In the order of an album's posts."""
        found: dict[UUID, list[ShownFile]] = {}
        if post_ids:
            async with as_tenant(self._database, tenant_id) as connection:
                for file in await files_of(connection, post_ids):
                    found.setdefault(file.post_id, []).append(file)
        return found


async def files_of(connection: AsyncConnection, post_ids: Sequence[UUID]) -> list[ShownFile]:
    rows = await connection.execute(text(_FILES), {"ids": list(post_ids)})
    return [_shown(row) for row in rows]


def _shown(row: Row[Any]) -> ShownFile:
    fields = row._asdict()
    seen = fields.pop("seen")
    return ShownFile(**fields, seen=msgspec.json.decode(seen, type=Seen) if seen else None)
