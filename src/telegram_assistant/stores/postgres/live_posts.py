"""Posts that have just been indexed, as each tenant may see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import as_tenant

LONGEST = 160  # characters of a post: enough to know whether it is worth opening


@dataclass(frozen=True, slots=True)
class LivePost:
    """A post in short."""

    id: UUID
    channel_id: int
    channel: str
    posted_at: datetime
    text: str
    has_media: bool


class LivePosts:
    """Reads a few posts at once."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def visible(self, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, LivePost]:
        """Those of them that the tenant may see and that still exist."""
        statement = text(
            "SELECT p.id, p.channel_id, c.title, p.posted_at, left(p.text, :longest), p.has_media"
            " FROM posts p JOIN channels c ON c.id = p.channel_id"
            " WHERE p.id = ANY(:ids) AND p.deleted_at IS NULL AND c.status IN ('active', 'dead')"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(statement, {"ids": list(ids), "longest": LONGEST})
            return {row[0]: LivePost(*row) for row in rows}
