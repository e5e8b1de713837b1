"""Posts for whoever may see them, under row-level security (G7): one with all that hangs on it, and the newest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.post import post_id
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_assistant.stores.postgres.post_files import files_of
from telegram_assistant.stores.postgres.post_values import (
    AnswerTo,
    Caption,
    ChannelName,
    Counted,
    ForwardedFrom,
    LinkedPage,
    PostLine,
    PostView,
    Version,
    entities_of,
    findings_of,
    poll_of,
    service_of,
)
from telegram_assistant.stores.postgres.steps import Recorded, path_of

MOST_VERSIONS = 100
MOST_COUNTERS = 1_000
EXCERPT = 200  # characters of what a post answers

_LINE = """p.id, p.message_id, p.posted_at, p.text, p.edited_at, p.deleted_at, p.version, p.has_media, p.views,
  p.forwards, p.replies, p.reactions,
  (SELECT i.group_id FROM media_group_items i WHERE i.post_id = p.id LIMIT 1) AS album_id"""
_ONE = f"""
SELECT {_LINE}, c.id AS channel_id, c.title, c.username, p.entities, p.pinned, p.captured_at, p.details,
  t.data AS tags, t.provider, (SELECT count(*) FROM post_comments m WHERE m.post_id = p.id) AS comments
FROM posts p JOIN channels c ON c.id = p.channel_id
LEFT JOIN post_enrichment t ON t.post_id = p.id AND t.kind = 'tags' AND t.content_hash = p.content_hash
WHERE p.id = :id
"""
# Each channel gives its newest by its index, and the newest of these are the newest of all.
_NEWEST = """
SELECT n.*, c.id AS channel_id, c.title, c.username FROM channels c CROSS JOIN LATERAL (
  SELECT {line} FROM posts p WHERE p.channel_id = c.id AND p.deleted_at IS NULL{narrowed}
  ORDER BY p.posted_at DESC, p.id DESC LIMIT :limit) n
WHERE {channels} ORDER BY n.posted_at DESC, n.id DESC LIMIT :limit
"""
_CAPTION = """
SELECT id, text, entities FROM posts WHERE id = ANY(:ids) AND text <> '' ORDER BY message_id LIMIT 1
"""
_ALBUM = "SELECT post_id FROM media_group_items WHERE group_id = :id ORDER BY position"
_PAGES = """
SELECT l.link, w.url, w.title, coalesce(nullif(w.description, ''), left(w.text, 300)), w.site, w.problem, w.fetched_at
FROM post_pages l JOIN web_pages w ON w.url = l.url WHERE l.post_id = :id ORDER BY l.link
"""
_VERSIONS = """
SELECT version, text, entities, edited_at, seen_at FROM (
  SELECT version, text, entities, edited_at, seen_at FROM post_versions WHERE post_id = :id
  UNION ALL SELECT version, text, entities, edited_at, NULL FROM posts WHERE id = :id) v
ORDER BY version DESC LIMIT :limit
"""
_COUNTERS = """
SELECT at, views, forwards, replies, reactions FROM (
  SELECT at, views, forwards, replies, reactions FROM post_counters WHERE post_id = :id
  UNION ALL SELECT counters_at, views, forwards, replies, reactions FROM posts WHERE id = :id) n
ORDER BY at DESC LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of a list ended."""

    posted_at: datetime
    post_id: UUID


class PostViews:
    """Reads as a tenant. What it may not see is not there."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def get(self, tenant_id: UUID, wanted: UUID) -> PostView | None:
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(text(_ONE), {"id": wanted})).one_or_none()
            return await _view(connection, row) if row is not None else None

    async def newest(
        self,
        tenant_id: UUID,
        *,
        limit: int,
        channel_id: int | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        after: Place | None = None,
    ) -> list[PostLine]:
        """Without comments, unless it is their group that is asked for. `since`, `before`: when they were posted."""
        values = {
            "channel": channel_id,
            "since": since,
            "before": before,
            "at": after.posted_at if after else None,
            "id": after.post_id if after else None,
        }
        conditions = {
            "since": " AND p.posted_at >= :since",
            "before": " AND p.posted_at < :before",
            "at": " AND p.posted_at <= :at AND (p.posted_at, p.id) < (:at, CAST(:id AS uuid))",
        }
        narrowed = "".join(condition for name, condition in conditions.items() if values[name] is not None)
        channels = "c.status <> 'linked'" if channel_id is None else "c.id = :channel"
        used = {name: value for name, value in values.items() if value is not None}
        statement = text(_NEWEST.format(line=_LINE, narrowed=narrowed, channels=channels))
        async with as_tenant(self._database, tenant_id) as connection:
            return [PostLine(**_line(row)) for row in await connection.execute(statement, {**used, "limit": limit})]

    async def versions(self, tenant_id: UUID, wanted: UUID) -> list[Version]:
        """The newest first; empty: there is no such post."""
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_VERSIONS), {"id": wanted, "limit": MOST_VERSIONS})
            return [
                Version(row.version, row.text, entities_of(row.entities), row.edited_at, row.seen_at) for row in rows
            ]

    async def counters(self, tenant_id: UUID, wanted: UUID) -> list[Counted]:
        """The oldest first; empty: there is no such post."""
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_COUNTERS), {"id": wanted, "limit": MOST_COUNTERS})
            counted = [
                Counted(row.at, row.views, row.forwards, row.replies, sum(row.reactions.values())) for row in rows
            ]
        return counted[::-1]

    async def path(self, tenant_id: UUID, wanted: UUID) -> list[Recorded]:
        """How it came here; empty: there is no such post."""
        async with as_tenant(self._database, tenant_id) as connection:
            return await path_of(connection, wanted)


async def _view(connection: AsyncConnection, row: Row[Any]) -> PostView:
    album: tuple[UUID, ...] = ()
    if row.album_id is not None:
        album = tuple(one.post_id for one in await connection.execute(text(_ALBUM), {"id": row.album_id}))
    pages = await connection.execute(text(_PAGES), {"id": row.id})
    return PostView(
        **_line(row),
        entities=entities_of(row.entities),
        pinned=row.pinned,
        captured_at=row.captured_at,
        author=row.details.get("author"),
        files=tuple(await files_of(connection, album or [row.id])),
        album=album,
        caption=await _caption(connection, album) if album and not row.text else None,
        found=findings_of(row.tags, row.provider),
        pages=tuple(LinkedPage(*page) for page in pages),
        forward=await _forward(connection, row.details.get("forward")),
        reply_to=await _answered(connection, row.channel_id, row.details.get("reply_to")),
        poll=poll_of(row.details),
        service=service_of(row.details),
        comments=row.comments,
    )


def _line(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "channel": ChannelName(row.channel_id, row.title, row.username),
        "message_id": row.message_id,
        "posted_at": row.posted_at,
        "text": row.text,
        "edited_at": row.edited_at,
        "deleted_at": row.deleted_at,
        "version": row.version,
        "album_id": row.album_id,
        "has_media": row.has_media,
        "views": row.views,
        "forwards": row.forwards,
        "replies": row.replies,
        "reactions": row.reactions,
    }


async def _caption(connection: AsyncConnection, album: tuple[UUID, ...]) -> Caption | None:
    row = (await connection.execute(text(_CAPTION), {"ids": list(album)})).one_or_none()
    return Caption(row.id, row.text, entities_of(row.entities)) if row is not None else None


async def _forward(connection: AsyncConnection, origin: dict[str, Any] | None) -> ForwardedFrom | None:
    if not origin:
        return None
    channel_id, message_id = origin.get("channel_id"), origin.get("message_id")
    channel = post = None
    if channel_id:
        statement = text(
            "SELECT c.id, c.title, c.username, p.id FROM channels c LEFT JOIN posts p ON p.channel_id = c.id"
            " AND p.message_id = :message WHERE c.id = :channel"
        )
        values = {"channel": channel_id, "message": message_id or 0}
        row = (await connection.execute(statement, values)).one_or_none()
        channel, post = (ChannelName(*row[:3]), row[3]) if row is not None else (None, None)
    posted_at = origin.get("posted_at")
    return ForwardedFrom(
        channel_id=channel_id,
        message_id=message_id,
        name=origin.get("name") or origin.get("author"),
        posted_at=datetime.fromisoformat(posted_at) if posted_at else None,
        channel=channel,
        post_id=post,
    )


async def _answered(connection: AsyncConnection, channel_id: int, answered: dict[str, Any] | None) -> AnswerTo | None:
    if not answered or not answered.get("message_id"):
        return None
    message_id = answered["message_id"]
    wanted = post_id(answered.get("channel_id") or channel_id, message_id)
    statement = text("SELECT id, left(text, :most) AS text FROM posts WHERE id = :id")
    row = (await connection.execute(statement, {"id": wanted, "most": EXCERPT})).one_or_none()
    if row is None:
        return AnswerTo(message_id=message_id)
    return AnswerTo(message_id=message_id, post_id=row.id, text=row.text)
