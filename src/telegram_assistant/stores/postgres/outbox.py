"""What is committed and not yet published: a row per batch, and the events made anew from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from uuid import UUID

import asyncpg

from telegram_assistant.domain.events import AlbumParsed, Event, PostDeleted, PostParsed
from telegram_assistant.domain.post import post_url
from telegram_assistant.names import ALBUMS_PARSED, POSTS_DELETED, POSTS_PARSED
from telegram_assistant.stores.postgres.posts import Connection
from telegram_assistant.stores.postgres.tables import SYSTEM_TENANT

LOCK = 0x7467_615F_6F75_7462  # any number that nobody else uses for an advisory lock
_SYSTEM_TENANT = UUID(SYSTEM_TENANT)


@dataclass(frozen=True, slots=True)
class Pending:
    """One batch that waits for the stream."""

    id: int
    event: str
    ids: tuple[UUID, ...]
    trace_id: str
    created_at: datetime


async def remember(connection: Connection, batches: Sequence[tuple[str, Sequence[UUID]]], trace_id: str) -> None:
    if batches:
        await connection.executemany(
            "INSERT INTO outbox (event, ids, trace_id) VALUES ($1, $2, $3)",
            [(event, ids, trace_id) for event, ids in batches],
        )


async def take(connection: Connection, *, limit: int) -> list[Pending]:
    """The oldest batches, unless another process is publishing: a deletion must not overtake the post itself."""
    if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", LOCK):
        return []
    rows = await connection.fetch("SELECT id, event, ids, trace_id, created_at FROM outbox ORDER BY id LIMIT $1", limit)
    return [Pending(row["id"], row["event"], tuple(row["ids"]), row["trace_id"], row["created_at"]) for row in rows]


async def forget(connection: Connection, batches: Sequence[Pending]) -> None:
    await connection.execute("DELETE FROM outbox WHERE id = ANY($1)", [batch.id for batch in batches])


async def events_of(connection: Connection, batch: Pending) -> list[Event]:
    """The events of a batch, from what the tables say now: a newer version simply arrives earlier."""
    if batch.event == POSTS_DELETED:
        return [
            PostDeleted(
                trace_id=batch.trace_id,
                occurred_at=batch.created_at,
                idempotency_key=f"{POSTS_DELETED}:{id_}:{batch.trace_id}",  # a post may come back and go again
                tenant_id=_SYSTEM_TENANT,
                post_id=id_,
            )
            for id_ in batch.ids
        ]
    if batch.event == ALBUMS_PARSED:
        return await _albums(connection, batch)
    return await _posts(connection, batch)


async def _posts(connection: Connection, batch: Pending) -> list[Event]:
    rows = await connection.fetch(
        # No column more than needed, and no empty JSON: reading them back is half of what an event costs.
        "SELECT p.id, p.channel_id, p.message_id, p.version, p.text, p.urls, p.posted_at, p.content_hash, p.has_media,"
        " p.grouped_id, p.views, p.forwards, p.replies, nullif(p.reactions, '{}') AS reactions,"
        " nullif(p.details, '{}') AS details, p.edited_at, c.username, coalesce(c.tenant_id, $2) AS tenant_id"
        " FROM posts p JOIN channels c ON c.id = p.channel_id"
        " WHERE p.id = ANY($1) ORDER BY p.channel_id, p.message_id",
        list(batch.ids),
        _SYSTEM_TENANT,
    )
    return [_post_event(row, batch) for row in rows]


def _post_event(row: asyncpg.Record, batch: Pending) -> Event:
    details = row["details"] or {}
    forward = details.get("forward") or {}
    reply = details.get("reply_to") or {}
    return PostParsed(
        trace_id=batch.trace_id,
        occurred_at=batch.created_at,
        idempotency_key=f"{POSTS_PARSED}:{row['id']}:{row['version']}",
        tenant_id=row["tenant_id"],
        channel_id=row["channel_id"],
        post_id=row["id"],
        version=row["version"],
        telegram_message_id=row["message_id"],
        telegram_post_url=post_url(row["username"], row["channel_id"], row["message_id"]),
        text=row["text"],
        urls=tuple(row["urls"]),
        posted_at=row["posted_at"],
        content_hash=row["content_hash"],
        has_media=row["has_media"],
        grouped_id=row["grouped_id"],
        views=row["views"],
        forwards=row["forwards"],
        replies=row["replies"],
        reactions=row["reactions"] or {},
        forward_channel_id=forward.get("channel_id"),
        forward_message_id=forward.get("message_id"),
        reply_to_message_id=reply.get("message_id"),
        author=details.get("author"),
        edited_at=row["edited_at"],
    )


async def _albums(connection: Connection, batch: Pending) -> list[Event]:
    rows = await connection.fetch(
        "SELECT g.*, c.tenant_id, (SELECT array_agg(i.post_id ORDER BY i.position) FROM media_group_items i"
        " WHERE i.group_id = g.id) AS post_ids"
        " FROM media_groups g JOIN channels c ON c.id = g.channel_id WHERE g.id = ANY($1)",
        list(batch.ids),
    )
    return [
        AlbumParsed(
            trace_id=batch.trace_id,
            occurred_at=batch.created_at,
            idempotency_key=f"{ALBUMS_PARSED}:{row['id']}:{_fingerprint(row['post_ids'] or ())}",
            tenant_id=row["tenant_id"] or _SYSTEM_TENANT,
            channel_id=row["channel_id"],
            album_id=row["id"],
            grouped_id=row["grouped_id"],
            album_kind=row["album_kind"],
            items_count=row["items_count"],
            caption_text=row["caption_text"],
            post_ids=tuple(row["post_ids"] or ()),
            posted_at=row["posted_at"],
        )
        for row in rows
    ]


def _fingerprint(post_ids: Sequence[UUID]) -> str:
    """Not their number: an album can lose one item after it got another."""
    return sha256(b"".join(one.bytes for one in post_ids)).hexdigest()[:16]
