"""How much a tenant has, and how far it has got: for its first page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import as_tenant

MOST_NEW = 100  # posts that are counted

_OVERVIEW = """
SELECT count(*) AS channels, coalesce(sum(c.captured), 0)::bigint AS posts, max(c.last_post_at) AS newest,
  coalesce(sum((SELECT count(*) FROM posts p WHERE p.channel_id = c.id AND p.posted_at >= :since)), 0)::bigint
    AS recent,
  (SELECT count(*) FROM channel_requests WHERE channel_id IS NULL) AS waiting
FROM channels c WHERE c.status NOT IN ('linked', 'removed')
"""
_NEW = """
SELECT count(DISTINCT coalesce(album_id, post_id)) FROM (
  SELECT album_id, post_id FROM search_documents WHERE (posted_at, post_id) > (:at, CAST(:id AS uuid)) AND NOT deleted
  ORDER BY posted_at, post_id LIMIT :most) n
"""


@dataclass(frozen=True, slots=True)
class Overview:
    """In numbers. `waiting`: channels that were asked for and not found yet."""

    channels: int
    posts: int
    newest: datetime | None
    recent: int
    waiting: int


class Overviews:
    """Reads as a tenant."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def of(self, tenant_id: UUID, *, since: datetime) -> Overview:
        """`since`: from when on a post is recent."""
        async with as_tenant(self._database, tenant_id) as connection:
            return Overview(*(await connection.execute(text(_OVERVIEW), {"since": since})).one())

    async def searchable(self, tenant_id: UUID) -> bool:
        """Whether any post can be found."""
        statement = text("SELECT EXISTS (SELECT 1 FROM search_documents WHERE NOT deleted)")
        async with as_tenant(self._database, tenant_id) as connection:
            return bool((await connection.execute(statement)).scalar_one())

    async def new_after(self, tenant_id: UUID, posted_at: datetime, post_id: UUID) -> int:
        """How many came after this post, albums counted once."""
        values = {"at": posted_at, "id": post_id, "most": MOST_NEW}
        async with as_tenant(self._database, tenant_id) as connection:
            return int((await connection.execute(text(_NEW), values)).scalar_one())
