"""How much space each tenant uses, and how much it may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.storage import COUNTED, REFUSED, Quota, Room, room_of
from telegram_assistant.stores.postgres.database import Store, as_tenant

MOST_REVIVED = 5_000  # files that are looked at in one go, those of the newest posts first

# Of one tenant: what was measured last, and files that came since.
_USED = """
SELECT t.id, t.name, coalesce(t.storage_quota_mb, :default_mb) AS mb, last.at,
  coalesce((SELECT sum(u.bytes) FROM storage_usage u
    WHERE u.tenant_id = t.id AND u.measured_at = last.at AND u.kind = ANY(:counted)), 0)
  + coalesce((SELECT sum(o.size) FROM media_objects o
    WHERE o.created_at > coalesce(last.at, '-infinity') AND o.evicted_at IS NULL AND EXISTS (
      SELECT 1 FROM post_media m JOIN posts p ON p.id = m.post_id WHERE m.sha256 = o.sha256 AND (
        EXISTS (SELECT 1 FROM subscriptions s WHERE s.tenant_id = t.id AND s.channel_id = p.channel_id)
        OR EXISTS (SELECT 1 FROM channels c WHERE c.id = p.channel_id AND c.tenant_id = t.id)))), 0) AS used
FROM tenants t CROSS JOIN LATERAL
  (SELECT max(measured_at) AS at FROM storage_usage WHERE tenant_id = t.id) AS last
"""
# Who watches a channel; a discussion group is there for those who watch its channel.
_WATCHING = """
SELECT tenant_id FROM subscriptions WHERE channel_id = :channel
UNION SELECT tenant_id FROM channels WHERE id = :channel AND tenant_id IS NOT NULL
UNION SELECT s.tenant_id FROM subscriptions s JOIN channels c ON c.id = s.channel_id WHERE c.linked_id = :channel
"""
_REFUSED = """
SELECT m.post_id, m.position, coalesce(m.size, 0) AS size, p.channel_id
FROM post_media m JOIN posts p ON p.id = m.post_id
WHERE m.status = 'skipped' AND starts_with(m.reason, :refused) ORDER BY p.posted_at DESC LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one kind, at one time."""

    at: datetime
    kind: str
    bytes: int
    objects: int


class Storage(Store):
    """`default_mb`: the quota of tenants that have none of their own; 0: none."""

    def __init__(self, database: AsyncEngine, *, default_mb: int = 0) -> None:
        super().__init__(database)
        self._default_mb = default_mb

    async def tenants(self) -> list[tuple[UUID, str]]:
        rows = await self._rows("SELECT id, name FROM tenants ORDER BY name")
        return [(row.id, row.name) for row in rows]

    async def record(self, tenant_id: UUID, usage: Sequence[Usage], at: datetime) -> None:
        statement = (
            "INSERT INTO storage_usage (tenant_id, measured_at, kind, bytes, objects)"
            " SELECT id, :at, :kind, :bytes, :objects FROM tenants WHERE id = :tenant"  # it may have been erased
            " ON CONFLICT (tenant_id, measured_at, kind) DO UPDATE SET bytes = excluded.bytes,"
            " objects = excluded.objects"
        )
        rows = [
            {"tenant": tenant_id, "at": at, "kind": one.kind, "bytes": one.bytes, "objects": one.count} for one in usage
        ]
        await self._run(statement, rows)

    async def history(self, tenant_id: UUID, since: datetime) -> list[Measured]:
        """The oldest first."""
        statement = (
            "SELECT measured_at, kind, bytes, objects FROM storage_usage WHERE measured_at >= :since"
            " ORDER BY measured_at, kind"
        )
        return [Measured(*row) for row in await self._rows(statement, {"since": since}, tenant=tenant_id)]

    async def prune(self, before: datetime) -> int:
        return await self._run("DELETE FROM storage_usage WHERE measured_at < :before", {"before": before})

    async def set_quota(self, tenant_id: UUID, megabytes: int | None) -> None:
        """None: as the settings say."""
        statement = "UPDATE tenants SET storage_quota_mb = :mb WHERE id = :tenant"
        await self._run(statement, {"mb": megabytes, "tenant": tenant_id})

    async def quota(self, tenant_id: UUID) -> Quota | None:
        async with self._database.connect() as connection:
            found = await self._quotas(connection, " WHERE t.id = :tenant", tenant=tenant_id)
        return found[0] if found else None

    async def limited(self) -> list[Quota]:
        """Of all tenants that have a quota."""
        async with self._database.connect() as connection:
            return await self._quotas(connection, " WHERE coalesce(t.storage_quota_mb, :default_mb) > 0")

    async def room(self, channel_id: int) -> Room:
        """What may still be downloaded of a channel."""
        free = text(
            f"SELECT count(*) FILTER (WHERE coalesce(storage_quota_mb, :default_mb) = 0) FROM tenants"
            f" WHERE id IN ({_WATCHING}) HAVING count(*) > 0"
        )
        async with self._database.connect() as connection:
            values = {"channel": channel_id, "default_mb": self._default_mb}
            unlimited = (await connection.execute(free, values)).scalar()
            if unlimited is None or unlimited:
                return Room()
            return room_of(await self._quotas(connection, f" WHERE t.id IN ({_WATCHING})", channel=channel_id))

    async def revive(self) -> int:
        """Files that were refused, and that there is room for now, wait for their download again."""
        values = {"refused": REFUSED, "limit": MOST_REVIVED}
        refused = list(await self._rows(_REFUSED, values))
        rooms = {channel: await self.room(channel) for channel in {row.channel_id for row in refused}}
        fitting: list[Row[Any]] = []
        for row in refused:
            if rooms[row.channel_id].takes(row.size):
                rooms[row.channel_id].take(row.size)
                fitting.append(row)
        statement = (
            "UPDATE post_media m SET status = 'pending', attempts = 0, reason = NULL, next_attempt_at = now()"
            " FROM unnest(CAST(:posts AS uuid[]), CAST(:positions AS integer[])) AS w(post_id, position)"
            " WHERE m.post_id = w.post_id AND m.position = w.position AND m.status = 'skipped'"
        )
        keys = {"posts": [row.post_id for row in fitting], "positions": [row.position for row in fitting]}
        return await self._run(statement, keys)

    async def _quotas(self, connection: AsyncConnection, which: str, **values: Any) -> list[Quota]:
        given = {"default_mb": self._default_mb, "counted": list(COUNTED), **values}
        rows = await connection.execute(text(f"{_USED}{which} ORDER BY t.name"), given)
        return [
            Quota(tenant_id=row.id, tenant=row.name, megabytes=row.mb, used=int(row.used), measured_at=row.at)
            for row in rows
        ]


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


class StorageUsage(Store):
    """Counts when asked: it may take a second on a large archive."""

    async def of_tenant(self, tenant_id: UUID) -> list[Usage]:
        async with as_tenant(self._database, tenant_id) as connection:
            channels = list((await connection.execute(text(_CHANNELS))).scalars())
        found = []
        async with self._database.begin() as connection:
            await connection.execute(text(f"SET LOCAL statement_timeout = '{PATIENCE}'"))
            for kind, statement in _STATEMENTS.items():
                row = (await connection.execute(text(statement), {"channels": channels})).one()
                found.append(Usage(kind, int(row[0]), int(row[1])))
        return found
