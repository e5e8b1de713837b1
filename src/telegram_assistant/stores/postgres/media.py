"""Files of posts: what is fetched next, what is stored, and what is evicted to save space."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.accounts import Reach
from telegram_assistant.domain.text import clean_text
from telegram_assistant.names import MEDIA_SETTLED
from telegram_assistant.stores.media import StoredFile
from telegram_assistant.stores.postgres.accounts import readable
from telegram_assistant.stores.postgres.database import Store, as_value

LONGEST_REASON = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file that we hold by lease. With another `leased_until` in the row the lease is lost."""

    post_id: UUID
    position: int
    channel_id: int
    message_id: int
    version: int  # of the post
    file_id: str | None
    attempts: int  # that failed through the file's own fault
    captured_at: datetime
    leased_until: datetime

    @property
    def key(self) -> tuple[UUID, int]:
        return self.post_id, self.position


_WANTED = (
    "m.post_id, m.position, p.channel_id, p.message_id, p.version, m.file_id, m.attempts, p.captured_at,"
    " m.next_attempt_at AS leased_until"
)


@dataclass(frozen=True, slots=True)
class MediaUsage:
    """How many files there are, by what became of them, and what the store holds."""

    pending: int = 0
    stored: int = 0
    skipped: int = 0
    failed: int = 0
    evicted: int = 0  # given up, and fetched again when they are wanted
    objects: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class MediaTrouble:
    """A channel's files that are not in the store, and one reason as an example."""

    failed: int
    skipped: int
    retried: int  # what arrived was not the file, and it is tried again
    reason: str

    def __str__(self) -> str:
        counts = ((self.failed, "failed"), (self.retried, "tried again"), (self.skipped, "not downloaded"))
        return f"files: {', '.join(f'{count} {what}' for count, what in counts if count)}, e.g. {self.reason}"


class MediaQueue(Store):
    """The rows of `post_media` as work. Every change is refused when the lease was lost or an edit replaced the row."""

    async def take(self, *, limit: int, now: datetime, until: datetime, reach: Reach | None = None) -> list[Wanted]:
        """Lease files that are due and that we can fetch, those that wait longest first."""
        condition, able = readable(reach, table="c")
        ours = (
            f"EXISTS (SELECT FROM posts q JOIN channels c ON c.id = q.channel_id WHERE q.id = post_id AND {condition})"
        )
        # MATERIALIZED: a planner that ran the inner query twice would lease more than the limit.
        statement = (
            "WITH due AS MATERIALIZED (SELECT post_id, position FROM post_media"
            f" WHERE status = 'pending' AND next_attempt_at <= :now{f' AND {ours}' if able else ''}"
            " ORDER BY next_attempt_at LIMIT :limit FOR UPDATE SKIP LOCKED)"
            " UPDATE post_media m SET next_attempt_at = :until FROM due, posts p"
            " WHERE m.post_id = due.post_id AND m.position = due.position AND p.id = m.post_id"
            f" RETURNING {_WANTED}"
        )
        rows = await self._rows(statement, {"now": now, "limit": limit, "until": until, **able})
        taken = [as_value(Wanted, row) for row in rows]
        return sorted(taken, key=lambda wanted: (wanted.channel_id, wanted.message_id, wanted.position))

    async def hold(self, keys: Sequence[tuple[UUID, int]], until: datetime) -> list[Wanted]:
        """Lease those of these files that no source can fetch and that are not stored: they come from an export."""
        statement = (
            "UPDATE post_media m SET status = 'pending', next_attempt_at = :until FROM posts p,"
            " unnest(CAST(:posts AS uuid[]), CAST(:positions AS int[])) AS wanted(post_id, position)"
            " WHERE m.post_id = wanted.post_id AND m.position = wanted.position AND p.id = m.post_id"
            f" AND m.sha256 IS NULL AND m.file_id IS NULL RETURNING {_WANTED}"
        )
        posts, positions = [post_id for post_id, _ in keys], [position for _, position in keys]
        rows = await self._rows(statement, {"until": until, "posts": posts, "positions": positions})
        return [as_value(Wanted, row) for row in rows]

    async def renew(self, wanted: Wanted, until: datetime) -> Wanted | None:
        """None when the lease was lost."""
        held = await self._change(wanted, "next_attempt_at = :until", {"until": until})
        return replace(wanted, leased_until=until) if held else None

    async def adopt(self, wanted: Sequence[Wanted]) -> set[tuple[UUID, int]]:
        """Those whose post had the same file before an edit get it back without a download."""
        edited = [one for one in wanted if one.version > 1]
        if not edited:
            return set()
        statement = text(
            "UPDATE post_media m SET status = 'stored', sha256 = o.sha256, reason = NULL, next_attempt_at = NULL"
            " FROM post_versions v, jsonb_to_recordset(v.media) AS old(file_id text, sha256 text), media_objects o"
            " WHERE v.post_id = ANY(:posts) AND m.post_id = v.post_id AND m.file_id = old.file_id"
            " AND o.sha256 = old.sha256 AND o.evicted_at IS NULL"
            " AND m.status = 'pending' AND m.next_attempt_at = ANY(:leases)"
            " RETURNING m.post_id, m.position"
        )
        values = {"posts": [one.post_id for one in edited], "leases": [one.leased_until for one in edited]}
        async with self._database.begin() as connection:
            adopted = {(row.post_id, row.position) for row in await connection.execute(statement, values)}
            await _tell(connection, {post_id for post_id, _ in adopted})
        return adopted

    async def stored(
        self, wanted: Wanted, file: StoredFile, mime: str, *, exists: Callable[[str], Awaitable[bool]]
    ) -> str:
        """Remember the file and that the post has it; the key under which it is kept, which may be an older one.

        Raises FileNotFoundError where it was given up, or erased with a tenant, after we had found it in its place.
        """
        remember = text(
            "INSERT INTO media_objects (sha256, mime, size, storage_key) VALUES (:sha256, :mime, :size, :key)"
            " ON CONFLICT (sha256) DO UPDATE SET storage_key = excluded.storage_key, created_at = now(),"
            " evicted_at = NULL WHERE media_objects.evicted_at IS NOT NULL RETURNING xmax <> 0 AS back"
        )
        others = text(
            "UPDATE post_media SET status = 'stored', reason = NULL WHERE sha256 = :sha256 AND status = 'evicted'"
        )
        kept = text("SELECT storage_key FROM media_objects WHERE sha256 = :sha256")
        move = text("UPDATE media_objects SET storage_key = :key WHERE sha256 = :sha256")
        values = {"sha256": file.sha256, "mime": mime, "size": file.size, "key": file.key}
        changed = _changing("status = 'stored', sha256 = :sha256, reason = NULL, next_attempt_at = NULL")
        async with self._database.begin() as connection:
            if (await connection.execute(remember, values)).scalar():
                await connection.execute(others, {"sha256": file.sha256})  # all who had it have it again
            key = str((await connection.execute(kept, {"sha256": file.sha256})).scalar_one())
            # A process that removes a file locks its row until the file is gone: what we see now is final.
            if not await exists(key):
                if key == file.key:
                    raise FileNotFoundError(f"{key} was removed while it was fetched")
                key = file.key  # of the older one nothing is left
                await connection.execute(move, values)
            # Without the row the object stays known: an older version of a post may show it.
            settled = await connection.execute(changed, {**_identity(wanted), "sha256": file.sha256})
            if settled.rowcount:
                await _tell(connection, {wanted.post_id})
        return key

    async def skip(self, wanted: Wanted, reason: str) -> bool:
        return await self._settle(wanted, "skipped", reason, wanted.attempts)

    async def fail(self, wanted: Wanted, reason: str) -> bool:
        """Give up: the last of its attempts failed."""
        return await self._settle(wanted, "failed", reason, wanted.attempts + 1)

    async def retry(self, wanted: Wanted, at: datetime, reason: str) -> bool:
        """Try again later; this attempt failed through the file's own fault."""
        changes = "next_attempt_at = :at, reason = :reason, attempts = :attempts"
        return await self._change(
            wanted, changes, {"at": at, "reason": _shortened(reason), "attempts": wanted.attempts + 1}
        )

    async def postpone(self, wanted: Wanted, at: datetime, reason: str) -> bool:
        """Try again later; nothing is wrong with the file."""
        return await self._change(
            wanted, "next_attempt_at = :at, reason = :reason", {"at": at, "reason": _shortened(reason)}
        )

    async def hand_back(self, wanted: Wanted, now: datetime) -> bool:
        """Give the lease back without a word: we are stopping."""
        return await self._change(wanted, "next_attempt_at = :now", {"now": now})

    async def revive(self, channel_id: int | None = None) -> int:
        """Try what failed once more from the beginning, in one channel or in all."""
        statement = (
            "UPDATE post_media m SET status = 'pending', attempts = 0, next_attempt_at = now() FROM posts p"
            " WHERE p.id = m.post_id AND m.status = 'failed' AND (CAST(:channel AS bigint) IS NULL"
            " OR p.channel_id = :channel)"
        )
        return await self._run(statement, {"channel": channel_id})

    async def pending(self) -> int:
        statement = "SELECT count(*) FROM post_media WHERE status = 'pending'"
        return int(await self._value(statement))

    async def usage(self) -> MediaUsage:
        files = text("SELECT status, count(*) AS files FROM post_media GROUP BY status")
        objects = text(
            "SELECT count(*) AS objects, coalesce(sum(size), 0) AS bytes FROM media_objects WHERE evicted_at IS NULL"
        )
        async with self._database.connect() as connection:
            counts = {row.status: int(row.files) for row in await connection.execute(files)}
            held = (await connection.execute(objects)).one()
        return MediaUsage(**counts, objects=int(held.objects), bytes=int(held.bytes))

    async def troubles(self) -> dict[int, MediaTrouble]:
        """By channel: what failed, is tried again or was skipped; with the reason of the worst."""
        statement = (
            "SELECT p.channel_id, count(*) FILTER (WHERE m.status = 'failed') AS failed,"
            " count(*) FILTER (WHERE m.status = 'skipped') AS skipped,"
            " count(*) FILTER (WHERE m.status = 'pending') AS retried,"
            " (array_agg(m.reason ORDER BY m.status, p.message_id DESC))[1] AS reason"
            " FROM post_media m JOIN posts p ON p.id = m.post_id WHERE m.status IN ('failed', 'skipped')"
            " OR (m.status = 'pending' AND m.attempts > 0) GROUP BY p.channel_id"
        )
        rows = await self._rows(statement)
        return {
            row.channel_id: MediaTrouble(row.failed, row.skipped, row.retried, row.reason or "unknown") for row in rows
        }

    async def _settle(self, wanted: Wanted, status: str, reason: str, attempts: int) -> bool:
        changed = _changing("status = :status, reason = :reason, attempts = :attempts, next_attempt_at = NULL")
        values = {"status": status, "reason": _shortened(reason), "attempts": attempts}
        async with self._database.begin() as connection:
            settled = bool((await connection.execute(changed, {**_identity(wanted), **values})).rowcount)
            if settled:
                await _tell(connection, {wanted.post_id})
        return settled

    async def _change(self, wanted: Wanted, changes: str, values: dict[str, object]) -> bool:
        return bool(await self._run(_changing(changes), {**_identity(wanted), **values}))


async def _tell(connection: AsyncConnection, post_ids: set[UUID]) -> None:
    """Of each file that is settled: at the last one nothing is waited for any more."""
    if post_ids:
        statement = text("INSERT INTO outbox (event, ids, trace_id) VALUES (:event, :ids, :trace)")
        values = {"event": MEDIA_SETTLED, "ids": sorted(post_ids), "trace": uuid4().hex}
        await connection.execute(statement, values)


def _changing(changes: str) -> Any:
    return text(
        f"UPDATE post_media SET {changes} WHERE post_id = :post_id AND position = :position"
        " AND status = 'pending' AND next_attempt_at = :leased_until"
    )


def _identity(wanted: Wanted) -> dict[str, object]:
    return {"post_id": wanted.post_id, "position": wanted.position, "leased_until": wanted.leased_until}


def _shortened(reason: str) -> str:
    return clean_text(reason)[:LONGEST_REASON]


REASON = "not opened for long, so it was removed to save room; it can be fetched again"
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


class Evictions(Store):
    """`media_objects` and the posts that have them."""

    async def opened(self, sha256: str) -> None:
        """It was opened. Once a day is enough to know."""
        statement = (
            "UPDATE media_objects SET opened_at = now() WHERE sha256 = :sha256"
            " AND (opened_at IS NULL OR opened_at < now() - interval '1 day')"
        )
        await self._run(statement, {"sha256": sha256})

    async def old(self, before: datetime, *, limit: int) -> list[str]:
        """Not opened since, of posts older than that, and to be had from Telegram; the least used first."""
        return [row[0] for row in await self._rows(_OLD, {"before": before, "limit": limit})]

    async def evict(self, sha256: str, delete: Callable[[str], Awaitable[None]], *, before: datetime) -> int:
        """Its bytes; 0 where it was opened meanwhile. The row is locked until the file is gone."""
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
        row = await self._row(_AGAIN, {"sha256": sha256}, tenant=tenant_id)
        if row is None:
            return False
        statement = (
            "UPDATE post_media SET status = 'pending', attempts = 0, reason = NULL, next_attempt_at = now()"
            " WHERE post_id = :post AND position = :position AND status = 'evicted'"
        )
        await self._run(statement, {"post": row.post_id, "position": row.position})
        return True

    async def kept_after(self, sha256: str, *, limit: int) -> list[tuple[str, str]]:
        """Files that should be in the store, with their keys, in the order of their hashes."""
        statement = (
            "SELECT sha256, storage_key FROM media_objects WHERE sha256 > :after AND evicted_at IS NULL"
            " ORDER BY sha256 LIMIT :limit"
        )
        rows = await self._rows(statement, {"after": sha256, "limit": limit})
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
        rows = await self._rows(_EVICTED, {"limit": limit}, tenant=tenant_id)
        return [Evicted(*row) for row in rows]
