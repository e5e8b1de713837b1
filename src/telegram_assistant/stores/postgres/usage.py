"""How much room a tenant's posts take, and what was made of them. What tenants share is counted for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import as_tenant

PATIENCE = "20s"

# Which channels a tenant sees is asked under row-level security; the rest is counted by channel, a policy for each of
# a million rows would take minutes.
_CHANNELS = "SELECT id FROM channels"
_STATEMENTS = {
    "posts": (
        "SELECT count(*), coalesce(sum(octet_length(text) + pg_column_size(entities)), 0) FROM posts"
        " WHERE channel_id = ANY(:channels)"
    ),
    "versions": (
        "SELECT count(*), coalesce(sum(octet_length(v.text)), 0) FROM post_versions v"
        " JOIN posts p ON p.id = v.post_id WHERE p.channel_id = ANY(:channels)"
    ),
    "media": (
        "SELECT count(*), coalesce(sum(size), 0) FROM media_objects WHERE evicted_at IS NULL AND sha256 IN"
        " (SELECT m.sha256"
        " FROM post_media m JOIN posts p ON p.id = m.post_id WHERE p.channel_id = ANY(:channels))"
    ),
    "vision": (
        "SELECT count(*), coalesce(sum(pg_column_size(data)), 0) FROM picture_results WHERE sha256 IN"
        " (SELECT m.sha256 FROM post_media m JOIN posts p ON p.id = m.post_id WHERE p.channel_id = ANY(:channels))"
    ),
    "pages": (
        "SELECT count(*), coalesce(sum(octet_length(text)), 0) FROM web_pages WHERE url IN (SELECT g.url"
        " FROM post_pages g JOIN posts p ON p.id = g.post_id WHERE p.channel_id = ANY(:channels))"
    ),
    "search": (
        "SELECT count(*), coalesce(sum(pg_column_size(words) + pg_column_size(forms)), 0) FROM search_documents"
        " WHERE channel_id = ANY(:channels)"
    ),
}


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one kind of thing: how many, and how many bytes."""

    kind: str
    count: int
    bytes: int


class StorageUsage:
    """Counts when asked: it may take a second on a large archive."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def of(self, tenant_id: UUID) -> list[Usage]:
        async with as_tenant(self._database, tenant_id) as connection:
            channels = list((await connection.execute(text(_CHANNELS))).scalars())
        found = []
        async with self._database.begin() as connection:
            await connection.execute(text(f"SET LOCAL statement_timeout = '{PATIENCE}'"))
            for kind, statement in _STATEMENTS.items():
                row = (await connection.execute(text(statement), {"channels": channels})).one()
                found.append(Usage(kind, int(row[0]), int(row[1])))
        return found
