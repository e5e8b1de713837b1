"""Events that a committed transaction has still to publish, and posts whose events must be published again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from uuid import UUID, uuid4

import msgspec

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import SCHEMA_VERSION, AlbumParsed, Event, MediaSettled, PostDeleted
from telegram_assistant.names import (
    ALBUMS_PARSED,
    ENRICHMENT,
    INDEXING,
    MEDIA_SETTLED,
    POSTS_DELETED,
    POSTS_PARSED,
    RECONCILER,
    RETAGGING,
    VISION_ANALYSIS,
)
from telegram_assistant.stores.postgres.posts import Connection

LOCK = 0x7467_615F_6F75_7462  # an arbitrary number for the advisory lock

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
        " (SELECT m.trace_id FROM post_media m WHERE m.post_id = p.id ORDER BY m.position LIMIT 1) AS trace_id"
        " FROM posts p JOIN channels c ON c.id = p.channel_id WHERE p.id = ANY($1)",
        list(batch.ids),
    )
    return [
        MediaSettled(
            trace_id=row["trace_id"] or batch.trace_id,  # of the capture; files of a former version have none
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


# What a post can lack, and the event that brings it back. The first that fits is enough: `posts.parsed` brings all.
BROUGHT_BY = {
    "remaining": POSTS_DELETED,  # deleted in Telegram, and the indexes were not told
    "untagged": POSTS_PARSED,
    "unindexed": POSTS_PARSED,
    "unread": POSTS_PARSED,  # its links
    "unseen": MEDIA_SETTLED,  # its pictures
    "not_retagged": MEDIA_SETTLED,  # with what vision read
    "unassembled": ALBUMS_PARSED,
}

_BY_ID = "p.id > $4", "p.id"
_BY_CAPTURE = "p.captured_at >= $5 AND (p.captured_at, p.id) > ($5, $4)", "p.captured_at, p.id"

# $1: what moved since then may still be on its way. $2: what waits since before then waits nowhere any more.
_PAGE = f"""
WITH page AS MATERIALIZED (
  SELECT p.id, p.channel_id, p.content_hash, p.version, p.captured_at, p.deleted_at FROM posts p
  WHERE {{where}} ORDER BY {{order}} LIMIT $3
), steps AS (
  SELECT g.id, coalesce(bool_or(s.at >= $1), false) AS moves,
    coalesce(bool_or(h.held AND s.stage NOT IN ('{VISION_ANALYSIS}', '{RETAGGING}')), false) AS words_held,
    coalesce(bool_or(h.held AND s.stage IN ('{VISION_ANALYSIS}', '{RETAGGING}')), false) AS pictures_held,
    coalesce(bool_or(h.done AND s.stage = '{INDEXING}'), false) AS indexed,
    coalesce(bool_or(h.ended AND s.stage = '{ENRICHMENT}'), false) AS read,
    coalesce(bool_or(h.done AND s.stage = '{VISION_ANALYSIS}'), false) AS seen,
    coalesce(bool_or(h.ended AND s.stage = '{RETAGGING}'), false) AS retag_decided,
    coalesce(bool_or(h.done AND s.stage = '{RETAGGING}'), false) AS retagged,
    max(s.at) FILTER (WHERE s.stage = '{INDEXING}') AS indexed_at
  FROM page g LEFT JOIN post_steps s ON s.post_id = g.id
  LEFT JOIN LATERAL (SELECT s.content_hash = g.content_hash AND s.outcome = 'done' AS done,
    s.content_hash = g.content_hash AND s.outcome IN ('done', 'skipped') AS ended,
    s.content_hash = g.content_hash AND (s.outcome = 'dead' OR s.outcome = 'waiting' AND s.at >= $2) AS held) h ON true
  GROUP BY g.id
), files AS (
  SELECT g.id, bool_or(m.status = 'pending') AS pending, bool_or(o.created_at >= $1) AS new
  FROM page g JOIN post_media m ON m.post_id = g.id LEFT JOIN media_objects o ON o.sha256 = m.sha256 GROUP BY g.id
), albums AS (
  SELECT g.id, i.group_id, bool_or(f.status = 'pending') AS pending, bool_and(v.post_id IS NOT NULL) AS seen,
    bool_or(e.data->>'items_count' = a.items_count::text) AS told, bool_or(e.data->>'partial' = 'true') AS partial,
    bool_or(EXISTS (SELECT FROM post_steps s WHERE s.post_id = x.post_id AND s.at >= $1)) AS moves
  FROM page g JOIN media_group_items i ON i.post_id = g.id AND i.position = 0
  JOIN media_groups a ON a.id = i.group_id AND a.announced_items = a.items_count
  JOIN media_group_items x ON x.group_id = a.id JOIN posts p ON p.id = x.post_id
  LEFT JOIN post_media f ON f.post_id = x.post_id
  LEFT JOIN post_enrichment e ON e.post_id = x.post_id AND e.kind = 'album'
  LEFT JOIN post_enrichment v ON v.post_id = x.post_id AND v.kind = 'vision' AND v.content_hash = p.content_hash
  GROUP BY g.id, i.group_id
)
SELECT g.id, g.captured_at, g.content_hash, b.group_id, CASE
  WHEN c.status = 'removed' OR s.moves OR g.captured_at >= $1 OR g.version > 1 AND EXISTS (
    SELECT FROM post_versions v WHERE v.post_id = g.id AND v.seen_at >= $1) THEN '{{{{}}}}'
  WHEN g.deleted_at IS NOT NULL THEN
    CASE WHEN s.indexed_at < g.deleted_at AND g.deleted_at < $1 THEN '{{{{remaining}}}}'::text[] ELSE '{{{{}}}}' END
  ELSE array_remove(ARRAY[
    CASE WHEN NOT s.words_held AND t.post_id IS NULL THEN 'untagged' END,
    CASE WHEN NOT s.words_held AND NOT s.indexed THEN 'unindexed' END,
    CASE WHEN NOT s.words_held AND l.post_id IS NOT NULL AND NOT s.read THEN 'unread' END,
    CASE WHEN NOT s.pictures_held AND NOT f.pending AND f.new IS NOT TRUE AND v.post_id IS NULL THEN 'unseen' END,
    CASE WHEN NOT s.pictures_held AND NOT f.pending AND f.new IS NOT TRUE
      AND (s.seen AND NOT s.retag_decided OR s.retagged AND coalesce((t.data->>'rank')::int, 0) < 1)
      THEN 'not_retagged' END,
    CASE WHEN NOT b.pending AND NOT b.moves AND (b.told IS NOT TRUE OR b.partial AND b.seen) THEN 'unassembled' END
  ], NULL) END AS lacks
FROM page g JOIN steps s ON s.id = g.id JOIN channels c ON c.id = g.channel_id
LEFT JOIN files f ON f.id = g.id LEFT JOIN albums b ON b.id = g.id
LEFT JOIN post_enrichment t ON t.post_id = g.id AND t.kind = 'tags' AND t.content_hash = g.content_hash
LEFT JOIN post_enrichment v ON v.post_id = g.id AND v.kind = 'vision' AND v.content_hash = g.content_hash
LEFT JOIN post_enrichment l ON l.post_id = g.id AND l.kind = 'crawl' AND l.content_hash = g.content_hash
ORDER BY {{result}}
"""
_STATEMENTS = {
    by_capture: _PAGE.format(where=where, order=order, result=order.replace("p.", "g."))
    for by_capture, (where, order) in ((False, _BY_ID), (True, _BY_CAPTURE))
}
# That a post was told of again is a step of its way, and keeps it from being told of anew while it is on it.
_NOTE = f"""
INSERT INTO post_steps AS s (post_id, stage, outcome, note, content_hash, trace_id, duration_ms, at)
SELECT n.id, '{RECONCILER}', 'done', n.note, n.hash, $4, 0, clock_timestamp()
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS n(id, hash, note) JOIN posts p ON p.id = n.id ORDER BY n.id
ON CONFLICT (post_id, stage) DO UPDATE SET note = excluded.note, content_hash = excluded.content_hash,
  trace_id = excluded.trace_id, at = excluded.at
"""


@dataclass(frozen=True, slots=True)
class Looked:
    """A post that was looked at; mostly it lacks nothing."""

    post_id: UUID
    captured_at: datetime
    content_hash: str
    album_id: UUID | None  # of the album whose first item it is
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What counts as missing: what moved since `before` may be on its way, what waits since `waits_since` waits."""

    before: datetime
    waits_since: datetime


async def posts_to_check(
    connection: Connection, bounds: Bounds, *, after: UUID | None, since: datetime | None = None, limit: int
) -> list[Looked]:
    """The next posts: by their ids, or by when they were captured from `since` on."""
    values = [bounds.before, bounds.waits_since, limit, after or UUID(int=0), *([] if since is None else [since])]
    rows = await connection.fetch(_STATEMENTS[since is not None], *values)
    return [Looked(row[0], row[1], row[2], row[3], tuple(row[4])) for row in rows]


async def publish_again(connection: Connection, posts: Sequence[Looked]) -> None:
    """Through the outbox, like everything that is published, and noted on the way of each post."""
    if not posts:
        return
    trace_id = uuid4().hex
    told: dict[str, list[UUID]] = {event: [] for event in BROUGHT_BY.values()}
    for post in posts:
        events = {BROUGHT_BY[lack] for lack in post.lacks}
        for event in events - ({MEDIA_SETTLED} if POSTS_PARSED in events else set()):
            told[event].append(post.album_id if event == ALBUMS_PARSED and post.album_id else post.post_id)
    await remember(connection, [(event, ids) for event, ids in told.items() if ids], trace_id)
    notes = [f"told of again: {', '.join(post.lacks)}" for post in posts]
    await connection.execute(
        _NOTE, [post.post_id for post in posts], [post.content_hash for post in posts], notes, trace_id
    )


async def oldest_unpublished(connection: Connection) -> datetime | None:
    """Since when something waits in the outbox."""
    found: datetime | None = await connection.fetchval("SELECT created_at FROM outbox ORDER BY id LIMIT 1")
    return found
