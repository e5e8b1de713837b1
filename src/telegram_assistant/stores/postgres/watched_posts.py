"""Posts that people watch, what changed of them, and channels in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.alerting import MOST_WATCHED
from telegram_assistant.domain.post import post_url
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import Store, as_tenant

_POST = """
SELECT p.id, p.version, p.deleted_at IS NOT NULL AS deleted, p.message_id, c.id AS channel_id, c.title, c.username
FROM posts p JOIN channels c ON c.id = p.channel_id WHERE p.id = :post
"""
# What is other than its watcher knows. A row that is gone was deleted, if that is how deletions are treated here.
_CHANGED = """
SELECT w.tenant_id, w.user_id, w.post_id, w.title, w.url, w.version AS known, w.deleted AS known_deleted,
  p.version, p.id IS NULL OR p.deleted_at IS NOT NULL AS deleted, p.id IS NULL AS gone
FROM watched_posts w LEFT JOIN posts p ON p.id = w.post_id
WHERE CASE WHEN p.id IS NULL THEN NOT w.deleted
  ELSE p.version > w.version OR (p.deleted_at IS NOT NULL) <> w.deleted END LIMIT :limit
"""
_TROUBLED = """
SELECT DISTINCT s.tenant_id, c.id, c.title, c.username, c.status, c.failures, c.last_error, c.last_success_at,
  c.created_at, CASE WHEN c.requested_from IS NULL THEN 0 ELSE
    greatest(0, c.newest_id + 1 - c.requested_from) - coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(
      c.coverage * int8multirange(int8range(c.requested_from, greatest(c.requested_from, c.newest_id + 1)))) AS r), 0)
  END::bigint AS unknown
FROM channels c JOIN subscriptions s ON s.channel_id = c.id AND (c.tenant_id IS NULL OR c.tenant_id = s.tenant_id)
LEFT JOIN channel_settings own ON own.channel_id = c.id AND own.tenant_id = s.tenant_id
WHERE c.status IN ('active', 'dead') AND own.paused_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class WatchedPost:
    """A post that a user watches."""

    post_id: UUID
    title: str
    url: str
    deleted: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ChangedPost:
    """A watched post that is not what its watcher knows."""

    tenant_id: UUID
    user_id: UUID
    post_id: UUID
    title: str
    url: str
    known: int
    known_deleted: bool
    version: int | None
    deleted: bool
    gone: bool  # there is no row any more


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel of a tenant, as far as it can be in trouble."""

    tenant_id: UUID
    id: int
    title: str
    username: str | None
    status: str
    failures: int
    last_error: str | None
    last_success_at: datetime | None
    created_at: datetime
    unknown: int


class WatchedPosts(Store):
    """The table `watched_posts`."""

    async def watch(self, tenant_id: UUID, user_id: UUID, post_id: UUID) -> bool:
        """False: the tenant sees no such post. Raises Reject for one too many."""
        row = await self._row(_POST, {"post": post_id}, tenant=tenant_id)
        if row is None:
            return False
        values = {
            "user": user_id,
            "post": post_id,
            "tenant": tenant_id,
            "title": row.title,
            "url": post_url(row.username, row.channel_id, row.message_id),
            "version": row.version,
            "deleted": row.deleted,
        }
        async with self._database.begin() as connection:
            # The lock is on the user: two requests at once may not both be the last that is allowed.
            await connection.execute(text("SELECT 1 FROM users WHERE id = :user FOR UPDATE"), values)
            count = await connection.execute(text("SELECT count(*) FROM watched_posts WHERE user_id = :user"), values)
            if count.scalar_one() >= MOST_WATCHED:
                raise Reject(f"you watch {MOST_WATCHED} posts already; stop watching one first")
            await connection.execute(
                text(
                    "INSERT INTO watched_posts (user_id, post_id, tenant_id, title, url, version, deleted)"
                    " VALUES (:user, :post, :tenant, :title, :url, :version, :deleted) ON CONFLICT DO NOTHING"
                ),
                values,
            )
        return True

    async def unwatch(self, tenant_id: UUID, user_id: UUID, post_id: UUID) -> bool:
        statement = "DELETE FROM watched_posts WHERE tenant_id = :tenant AND user_id = :user AND post_id = :post"
        return bool(await self._run(statement, {"tenant": tenant_id, "user": user_id, "post": post_id}))

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> list[WatchedPost]:
        """The newest first."""
        statement = (
            "SELECT post_id, title, url, deleted, created_at FROM watched_posts WHERE user_id = :user"
            " ORDER BY created_at DESC, post_id"
        )
        return [WatchedPost(*row) for row in await self._rows(statement, {"user": user_id}, tenant=tenant_id)]

    async def is_watched(self, tenant_id: UUID, user_id: UUID, post_id: UUID) -> bool:
        statement = "SELECT 1 FROM watched_posts WHERE user_id = :user AND post_id = :post"
        return await self._value(statement, {"user": user_id, "post": post_id}, tenant=tenant_id) is not None

    async def changed(self, *, limit: int) -> list[ChangedPost]:
        """Of all tenants."""
        return [ChangedPost(*row) for row in await self._rows(_CHANGED, {"limit": limit})]

    async def seen_by(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> set[UUID]:
        """Those that the tenant sees now."""
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text("SELECT id FROM posts WHERE id = ANY(:ids)"), {"ids": list(post_ids)})
            return set(rows.scalars())

    async def known(self, one: ChangedPost) -> None:
        """Its watcher was told."""
        statement = (
            "UPDATE watched_posts SET version = greatest(version, :version), deleted = :deleted"
            " WHERE user_id = :user AND post_id = :post"
        )
        values = {"version": one.version or one.known, "deleted": one.deleted, "user": one.user_id, "post": one.post_id}
        await self._run(statement, values)

    async def texts(self, tenant_id: UUID, post_id: UUID, versions: Sequence[int]) -> dict[int, str]:
        """What a post said in these versions, as far as the tenant sees it and it is kept."""
        statement = (
            "SELECT version, text FROM post_versions WHERE post_id = :post AND version = ANY(:versions)"
            " UNION ALL SELECT version, text FROM posts WHERE id = :post AND version = ANY(:versions)"
        )
        rows = await self._rows(statement, {"post": post_id, "versions": list(versions)}, tenant=tenant_id)
        return {row.version: row.text for row in rows}

    async def channels(self) -> list[ChannelState]:
        """Every channel of every tenant that is read or cannot be read any more."""
        return [ChannelState(*row) for row in await self._rows(_TROUBLED)]
