"""What is committed and not yet published: a row per batch, and the events made anew from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from uuid import UUID

import msgspec

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import SCHEMA_VERSION, AlbumParsed, Event, MediaSettled, PostDeleted
from telegram_assistant.names import ALBUMS_PARSED, MEDIA_SETTLED, POSTS_DELETED, POSTS_PARSED
from telegram_assistant.stores.postgres.posts import Connection

LOCK = 0x7467_615F_6F75_7462  # any number that nobody else uses for an advisory lock

# `PostParsed` as the tables have it.
POST_FIELDS = {
    "trace_id": "$2::text",
    "occurred_at": "$3::timestamptz",
    "idempotency_key": f"'{POSTS_PARSED}:' || p.id || ':' || p.version",
    "schema_version": str(SCHEMA_VERSION),
    "tenant_id": f"coalesce(c.tenant_id, '{SYSTEM_TENANT}')",
    "channel_id": "p.channel_id",
    "post_id": "p.id",
    "version": "p.version",
    "telegram_message_id": "p.message_id",
    "telegram_post_url": "'https://t.me/' || coalesce(c.username, 'c/' || c.id) || '/' || p.message_id",
    "text": "p.text",
    "urls": "p.urls",
    "posted_at": "p.posted_at",
    "content_hash": "p.content_hash",
    "has_media": "p.has_media",
    "grouped_id": "p.grouped_id",
    "views": "p.views",
    "forwards": "p.forwards",
    "replies": "p.replies",
    "reactions": "p.reactions",
    "forward_channel_id": "p.details->'forward'->'channel_id'",
    "forward_message_id": "p.details->'forward'->'message_id'",
    "reply_to_message_id": "p.details->'reply_to'->'message_id'",
    "author": "p.details->'author'",
    "edited_at": "p.edited_at",
}
_POST_EVENT = ", ".join(f"'{name}', {value}" for name, value in POST_FIELDS.items())
_POST_EVENTS = (
    f"SELECT json_build_object({_POST_EVENT})::text AS event"
    " FROM posts p JOIN channels c ON c.id = p.channel_id WHERE p.id = ANY($1) ORDER BY p.channel_id, p.message_id"
)


@dataclass(frozen=True, slots=True)
class Pending:
    """One batch that waits for the stream."""

    id: int
    event: str
    ids: tuple[UUID, ...]
    trace_id: str
    created_at: datetime
    tenant_id: UUID | None = None


async def remember(
    connection: Connection,
    batches: Sequence[tuple[str, Sequence[UUID]]],
    trace_id: str,
    tenant_id: UUID | None = None,
) -> None:
    """`tenant_id` is that of the channel, None for a public one."""
    if batches:
        await connection.executemany(
            "INSERT INTO outbox (event, ids, trace_id, tenant_id) VALUES ($1, $2, $3, $4)",
            [(event, ids, trace_id, tenant_id) for event, ids in batches],
        )


async def take(connection: Connection, *, most: int, events: int) -> list[Pending]:
    """The oldest batches, about so many events together, unless another process is publishing.

    One publishes at a time: a deletion must not overtake the post itself.
    """
    if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", LOCK):
        return []
    rows = await connection.fetch(
        "SELECT id, event, ids, trace_id, created_at, tenant_id FROM ("
        " SELECT *, sum(cardinality(ids)) OVER (ORDER BY id) - cardinality(ids) AS before"
        " FROM (SELECT * FROM outbox ORDER BY id LIMIT $1) oldest) counted WHERE before < $2 ORDER BY id",
        most,
        events,
    )
    return [Pending(id_, event, tuple(ids), *rest) for id_, event, ids, *rest in rows]


async def forget(connection: Connection, batches: Sequence[Pending]) -> None:
    await connection.execute("DELETE FROM outbox WHERE id = ANY($1)", [batch.id for batch in batches])


async def events_of(connection: Connection, batch: Pending) -> Sequence[Event | msgspec.Raw]:
    """The events of a batch, from what the tables say now: a newer version simply arrives earlier."""
    if batch.event == POSTS_DELETED:
        return await _deleted(connection, batch)
    if batch.event == ALBUMS_PARSED:
        return await _albums(connection, batch)
    if batch.event == MEDIA_SETTLED:
        return await _settled(connection, batch)
    return await _posts(connection, batch)


async def _posts(connection: Connection, batch: Pending) -> list[msgspec.Raw]:
    """Written by PostgreSQL itself: reading the columns here to write them down again costs three times as much."""
    rows = await connection.fetch(_POST_EVENTS, list(batch.ids), batch.trace_id, batch.created_at)
    return [msgspec.Raw(row["event"]) for row in rows]


async def _deleted(connection: Connection, batch: Pending) -> list[Event]:
    """The rows may be gone (RETENTION_DELETED=mirror): then the batch knows whose they were."""
    rows = await connection.fetch(
        "SELECT p.id, c.tenant_id FROM posts p JOIN channels c ON c.id = p.channel_id WHERE p.id = ANY($1)",
        list(batch.ids),
    )
    tenants = {row["id"]: row["tenant_id"] for row in rows}
    return [
        PostDeleted(
            trace_id=batch.trace_id,
            occurred_at=batch.created_at,
            idempotency_key=f"{POSTS_DELETED}:{id_}:{batch.trace_id}",  # a post may come back and go again
            tenant_id=tenants.get(id_) or batch.tenant_id or UUID(SYSTEM_TENANT),
            post_id=id_,
        )
        for id_ in batch.ids
    ]


async def _settled(connection: Connection, batch: Pending) -> list[Event]:
    rows = await connection.fetch(
        "SELECT p.id, p.channel_id, p.content_hash, c.tenant_id,"
        " (SELECT s.trace_id FROM post_steps s WHERE s.post_id = p.id ORDER BY s.at LIMIT 1) AS trace_id"
        " FROM posts p JOIN channels c ON c.id = p.channel_id WHERE p.id = ANY($1)",
        list(batch.ids),
    )
    return [
        MediaSettled(
            trace_id=row["trace_id"] or batch.trace_id,  # of the post's own way, as far as it got
            occurred_at=batch.created_at,
            idempotency_key=f"{MEDIA_SETTLED}:{row['id']}:{row['content_hash']}:{batch.trace_id}",
            tenant_id=row["tenant_id"] or UUID(SYSTEM_TENANT),
            channel_id=row["channel_id"],
            post_id=row["id"],
            content_hash=row["content_hash"],
        )
        for row in rows
    ]


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
            tenant_id=row["tenant_id"] or UUID(SYSTEM_TENANT),
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
