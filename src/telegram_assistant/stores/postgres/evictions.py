"""Files that are given up because nobody opens them and Telegram still has them; and their way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import as_tenant

REASON = "nobody opened it for long, so it was removed to save room; it can be fetched again"
LOST = "it vanished from the media store; where Telegram still has it, it is fetched again"

# A post that Telegram still has: not deleted, in a channel that we read.
_FETCHABLE = """
SELECT 1 FROM post_media m JOIN posts p ON p.id = m.post_id JOIN channels c ON c.id = p.channel_id
WHERE m.sha256 = o.sha256 AND m.file_id IS NOT NULL AND p.deleted_at IS NULL AND c.status IN ('active', 'linked')
"""
_OLD = f"""
SELECT o.sha256 FROM media_objects o
WHERE o.evicted_at IS NULL AND o.created_at < :before AND coalesce(o.opened_at, o.created_at) < :before
  AND EXISTS ({_FETCHABLE}) AND NOT EXISTS (
    SELECT 1 FROM post_media m JOIN posts p ON p.id = m.post_id WHERE m.sha256 = o.sha256 AND p.posted_at >= :before)
ORDER BY coalesce(o.opened_at, o.created_at) LIMIT :limit
"""
_AGAIN = """
SELECT m.post_id, m.position FROM post_media m JOIN posts p ON p.id = m.post_id JOIN channels c ON c.id = p.channel_id
WHERE m.sha256 = :sha256 AND m.status = 'evicted' AND m.file_id IS NOT NULL AND p.deleted_at IS NULL
  AND c.status IN ('active', 'linked') ORDER BY p.posted_at DESC LIMIT 1
"""
_LOST = """
UPDATE media_objects SET evicted_at = now() WHERE sha256 = ANY(:hashes) AND evicted_at IS NULL RETURNING sha256
"""
_LOST_OF_POSTS = """
UPDATE post_media SET status = 'evicted', reason = :reason WHERE sha256 = ANY(:hashes) AND status = 'stored'
"""
_FETCH_LOST = """
UPDATE post_media m SET status = 'pending', attempts = 0, reason = NULL, next_attempt_at = now() FROM (
  SELECT DISTINCT ON (m.sha256) m.post_id, m.position FROM post_media m JOIN posts p ON p.id = m.post_id
  JOIN channels c ON c.id = p.channel_id
  WHERE m.sha256 = ANY(:hashes) AND m.status = 'evicted' AND m.file_id IS NOT NULL AND p.deleted_at IS NULL
    AND c.status IN ('active', 'linked') ORDER BY m.sha256, p.posted_at DESC) one
WHERE m.post_id = one.post_id AND m.position = one.position
"""
_EVICTED = """
SELECT DISTINCT ON (o.evicted_at, o.sha256) o.sha256, o.size, o.evicted_at, m.post_id, m.status, m.kind, m.name, c.title
FROM media_objects o JOIN post_media m ON m.sha256 = o.sha256 JOIN posts p ON p.id = m.post_id
JOIN channels c ON c.id = p.channel_id WHERE o.evicted_at IS NOT NULL
ORDER BY o.evicted_at DESC, o.sha256, p.posted_at DESC LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class Evicted:
    """A file that was given up, with one post that has it."""

    sha256: str
    size: int
    evicted_at: datetime
    post_id: UUID
    status: str  # evicted, or pending: it is on its way back
    kind: str
    name: str | None
    channel: str


class Evictions:
    """`media_objects` and the posts that have them."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def opened(self, sha256: str) -> None:
        """Somebody wanted it. Once a day is enough to know."""
        statement = text(
            "UPDATE media_objects SET opened_at = now() WHERE sha256 = :sha256"
            " AND (opened_at IS NULL OR opened_at < now() - interval '1 day')"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"sha256": sha256})

    async def old(self, before: datetime, *, limit: int) -> list[str]:
        """Not opened since, of posts older than that, and to be had from Telegram; the least used first."""
        async with self._database.connect() as connection:
            return list((await connection.execute(text(_OLD), {"before": before, "limit": limit})).scalars())

    async def evict(self, sha256: str, delete: Callable[[str], Awaitable[None]], *, before: datetime) -> int:
        """Its bytes; 0 where somebody opened it meanwhile. The row is locked until the file is gone."""
        lock = text(
            "UPDATE media_objects SET evicted_at = now() WHERE sha256 = :sha256 AND evicted_at IS NULL"
            " AND coalesce(opened_at, created_at) < :before RETURNING storage_key, size"
        )
        mark = text(
            "UPDATE post_media SET status = 'evicted', reason = :reason WHERE sha256 = :sha256 AND status = 'stored'"
        )
        async with self._database.begin() as connection:
            row = (await connection.execute(lock, {"sha256": sha256, "before": before})).one_or_none()
            if row is None:
                return 0
            await connection.execute(mark, {"sha256": sha256, "reason": REASON})
            await delete(row.storage_key)
        return int(row.size)

    async def fetch_again(self, tenant_id: UUID, sha256: str) -> bool:
        """Whether it is on its way. False: the tenant sees no such file that was given up and can be had."""
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(text(_AGAIN), {"sha256": sha256})).one_or_none()
        if row is None:
            return False
        statement = text(
            "UPDATE post_media SET status = 'pending', attempts = 0, reason = NULL, next_attempt_at = now()"
            " WHERE post_id = :post AND position = :position AND status = 'evicted'"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"post": row.post_id, "position": row.position})
        return True

    async def kept_after(self, sha256: str, *, limit: int) -> list[tuple[str, str]]:
        """Files that should be in the store, with their keys, in the order of their hashes."""
        statement = text(
            "SELECT sha256, storage_key FROM media_objects WHERE sha256 > :after AND evicted_at IS NULL"
            " ORDER BY sha256 LIMIT :limit"
        )
        async with self._database.connect() as connection:
            rows = await connection.execute(statement, {"after": sha256, "limit": limit})
            return [(row.sha256, row.storage_key) for row in rows]

    async def lost(self, hashes: Sequence[str]) -> int:
        """Their bytes are gone. One post that Telegram still has fetches each for all; how many are on their way."""
        async with self._database.begin() as connection:
            # Without those that are given up at this moment.
            found = (await connection.execute(text(_LOST), {"hashes": list(hashes)})).scalars()
            values = {"hashes": list(found), "reason": LOST}
            await connection.execute(text(_LOST_OF_POSTS), values)
            return int((await connection.execute(text(_FETCH_LOST), {"hashes": values["hashes"]})).rowcount)

    async def of_tenant(self, tenant_id: UUID, *, limit: int) -> list[Evicted]:
        """The newest first."""
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_EVICTED), {"limit": limit})
            return [Evicted(*row) for row in rows]
