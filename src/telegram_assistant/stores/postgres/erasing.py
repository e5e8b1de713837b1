"""What a tenant leaves behind in PostgreSQL, found and removed. Every step may be repeated."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import CursorResult, text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.stores.postgres.channel_settings import derive_settings
from telegram_assistant.stores.postgres.database import Store


@dataclass(frozen=True, slots=True)
class Belongings:
    """What belongs to a tenant, and what no other tenant sees."""

    tenant_id: UUID
    users: frozenset[UUID]
    accounts: frozenset[UUID]
    channels: frozenset[int]  # its private ones, and public ones that only it watches
    public_posts: frozenset[UUID]  # of the latter: they stand in the indexes of the system
    albums: frozenset[UUID]
    posts: int


_CHANNELS = """
WITH own AS (
  SELECT c.id FROM channels c WHERE c.tenant_id = :tenant
  UNION SELECT s.channel_id FROM subscriptions s JOIN channels c ON c.id = s.channel_id
  WHERE s.tenant_id = :tenant AND c.tenant_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM subscriptions o WHERE o.channel_id = s.channel_id AND o.tenant_id <> :tenant)
)
SELECT id FROM own
UNION SELECT g.id FROM channels g JOIN own ON own.id = g.linked_id  -- comments of a channel go with it
WHERE g.status IN ('linked', 'removed') AND (g.tenant_id IS NULL OR g.tenant_id = :tenant)
  AND NOT EXISTS (SELECT 1 FROM subscriptions o WHERE o.channel_id = g.id AND o.tenant_id <> :tenant)
"""
_OF_CHANNELS = "IN (SELECT p.id FROM posts p WHERE p.channel_id = ANY(:channels))"
_ALBUMS_OF_CHANNELS = "IN (SELECT g.id FROM media_groups g WHERE g.channel_id = ANY(:channels))"
# Files that are still needed: a post has it now, or had it in an earlier version.
_USED = """
SELECT m.sha256 FROM post_media m WHERE m.sha256 = ANY(:files)
UNION SELECT e ->> 'sha256' FROM post_versions v CROSS JOIN LATERAL jsonb_array_elements(v.media) e
WHERE e ->> 'sha256' = ANY(:files)
"""
_OUTBOX = f"""
DELETE FROM outbox o WHERE tenant_id = :tenant OR EXISTS (
  SELECT 1 FROM unnest(o.ids) i(id) WHERE i.id {_OF_CHANNELS} OR i.id {_ALBUMS_OF_CHANNELS})
"""
# A letter that could not be read belongs to the system, even if it names a tenant.
_LETTERS = """
DELETE FROM dead_letters WHERE tenant_id = :tenant OR position(:name IN payload::text) > 0
  OR payload ->> 'channel_id' = ANY(:channel_names)
  OR payload ->> 'post_id' IN (SELECT x::text FROM unnest(CAST(:posts AS uuid[])) x)
"""
_PAGES = """
DELETE FROM web_pages w WHERE w.url = ANY(:pages) AND NOT EXISTS (SELECT 1 FROM post_pages l WHERE l.url = w.url)
"""
# They are kept by question, not by tenant: older ones than the tenant cannot be about it.
_MODEL_RESULTS = """
DELETE FROM model_results WHERE created_at >= (SELECT created_at FROM tenants WHERE id = :tenant)
"""
_ACCESS_HASHES = """
UPDATE channels SET access_hash = access_hash - CAST(:accounts AS text[])
WHERE jsonb_exists_any(access_hash, CAST(:accounts AS text[]))
"""


class Erasing(Store):
    """Reads and deletes as the system, one tenant at a time."""

    async def belongings(self, tenant_id: UUID) -> Belongings:
        async with self._database.connect() as connection:
            tenant = {"tenant": tenant_id}
            channels = await _ids(connection, _CHANNELS, tenant)
            values = {"channels": channels}
            public = "SELECT p.id FROM posts p JOIN channels c ON c.id = p.channel_id AND c.tenant_id IS NULL"
            count = "SELECT count(*) FROM posts WHERE channel_id = ANY(:channels)"
            posts = int((await _run(connection, count, values)).scalar_one())
            return Belongings(
                tenant_id=tenant_id,
                users=frozenset(await _ids(connection, "SELECT id FROM users WHERE tenant_id = :tenant", tenant)),
                accounts=frozenset(
                    await _ids(connection, "SELECT id FROM telegram_accounts WHERE tenant_id = :tenant", tenant)
                ),
                channels=frozenset(channels),
                public_posts=frozenset(await _ids(connection, f"{public} WHERE p.channel_id = ANY(:channels)", values)),
                albums=frozenset(
                    await _ids(connection, "SELECT id FROM media_groups WHERE channel_id = ANY(:channels)", values)
                ),
                posts=posts,
            )

    async def still(self, belongings: Belongings) -> None:
        """From now on nothing is read or asked for the tenant; what it had can still be found."""
        values = {"tenant": belongings.tenant_id, "channels": list(belongings.channels)}
        async with self._database.begin() as connection:
            for statement in (
                "UPDATE channels SET status = 'removed', next_visit_at = NULL WHERE id = ANY(:channels)",
                "UPDATE users SET disabled = true WHERE tenant_id = :tenant",
                "UPDATE telegram_accounts SET status = 'revoked' WHERE tenant_id = :tenant",
                "DELETE FROM channel_requests WHERE tenant_id = :tenant",
                "DELETE FROM sessions WHERE tenant_id = :tenant",
                "DELETE FROM one_time_links WHERE tenant_id = :tenant",
            ):
                await _run(connection, statement, values)

    async def files(self, belongings: Belongings) -> list[str]:
        """The files of its posts, now and in earlier versions, and those that stand in its folder of the store.

        Those that no post has too: the posts went in an attempt that was interrupted before their files did.
        """
        statement = (
            "SELECT m.sha256 FROM post_media m JOIN posts p ON p.id = m.post_id"
            " WHERE p.channel_id = ANY(:channels) AND m.sha256 IS NOT NULL"
            " UNION SELECT e ->> 'sha256' FROM post_versions v JOIN posts p ON p.id = v.post_id"
            " CROSS JOIN LATERAL jsonb_array_elements(v.media) e"
            " WHERE p.channel_id = ANY(:channels) AND e ->> 'sha256' IS NOT NULL"
            " UNION SELECT o.sha256 FROM media_objects o WHERE o.storage_key LIKE :folder"
            " OR NOT EXISTS (SELECT 1 FROM post_media m WHERE m.sha256 = o.sha256)"
        )
        values = {"channels": list(belongings.channels), "folder": f"media/{belongings.tenant_id}/%"}
        async with self._database.connect() as connection:
            return await _ids(connection, statement, values)

    async def remove_channels(self, belongings: Belongings) -> None:
        """With all that hangs on them: posts, albums, pages that no other post links to, letters, answers of models."""
        values: dict[str, Any] = {
            "tenant": belongings.tenant_id,
            "name": str(belongings.tenant_id),
            "channels": list(belongings.channels),
            "channel_names": [str(channel) for channel in belongings.channels],
            "posts": list(belongings.public_posts),
        }
        linked = f"SELECT DISTINCT l.url FROM post_pages l WHERE l.post_id {_OF_CHANNELS}"
        async with self._database.begin() as connection:
            values["pages"] = await _ids(connection, linked, values)
            channels = "DELETE FROM channels WHERE id = ANY(:channels)"
            for statement in (_OUTBOX, _LETTERS, channels, _PAGES, _MODEL_RESULTS):
                await _run(connection, statement, values)

    async def unused(self, files: Sequence[str]) -> list[str]:
        """Those of them that no post has or had."""
        async with self._database.connect() as connection:
            used = set(await _ids(connection, _USED, {"files": list(files)}))
        return [one for one in files if one not in used]

    @asynccontextmanager
    async def removed_file(self, sha256: str) -> AsyncIterator[str | None]:
        """Its key in the store; the row goes when the block ends without an error. None: a post has just taken it."""
        statement = text(
            "DELETE FROM media_objects o WHERE o.sha256 = :sha256"
            " AND NOT EXISTS (SELECT 1 FROM post_media m WHERE m.sha256 = o.sha256) RETURNING o.storage_key"
        )
        async with self._database.begin() as connection:
            yield (await connection.execute(statement, {"sha256": sha256})).scalar_one_or_none()

    async def kept_in(self, folder: str) -> list[tuple[str, str]]:
        """Files of others that stand under this key, because the same file came here first: hash and key."""
        statement = "SELECT sha256, storage_key FROM media_objects WHERE starts_with(storage_key, :folder)"
        rows = await self._rows(statement, {"folder": folder})
        return [(row.sha256, row.storage_key) for row in rows]

    async def moved(self, sha256: str, key: str) -> None:
        statement = "UPDATE media_objects SET storage_key = :key WHERE sha256 = :sha256"
        await self._run(statement, {"sha256": sha256, "key": key})

    async def remove_tenant(self, belongings: Belongings) -> None:
        """The last step: users, keys, sessions, searches, logs and what else names it go with its row."""
        values = {"tenant": belongings.tenant_id, "accounts": [str(account) for account in belongings.accounts]}
        watched = "SELECT DISTINCT channel_id FROM subscriptions WHERE tenant_id = :tenant ORDER BY channel_id"
        async with self._database.begin() as connection:
            channels = await _ids(connection, watched, values)
            for statement in (
                _ACCESS_HASHES,
                "DELETE FROM outbox WHERE tenant_id = :tenant",
                "DELETE FROM budget_spending WHERE owner = CAST(CAST(:tenant AS uuid) AS text)",
                "DELETE FROM budget_calls WHERE owner = CAST(CAST(:tenant AS uuid) AS text)",
                "DELETE FROM tenants WHERE id = :tenant",
            ):
                await _run(connection, statement, values)
            for channel_id in channels:
                await derive_settings(connection, channel_id)


async def _ids(connection: AsyncConnection, statement: str, values: dict[str, Any]) -> list[Any]:
    return list((await _run(connection, statement, values)).scalars())


async def _run(connection: AsyncConnection, statement: str, values: dict[str, Any]) -> CursorResult[Any]:
    """With only the values that the statement names."""
    named = set(re.findall(r"(?<!:):([a-z_]+)", statement))
    return await connection.execute(text(statement), {name: values[name] for name in named})
