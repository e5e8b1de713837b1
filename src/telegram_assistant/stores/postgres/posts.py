"""What the saver reads and writes, in as few statements as a page allows: posts, albums, the channel's ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import msgspec

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.post import Counters, MediaKind, Post, album_id, album_kind

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NEW_COLUMNS = (
    *("id", "channel_id", "message_id", "posted_at", "text", "entities", "urls", "content_hash", "grouped_id"),
    *("details", "pinned", "has_media", "views", "forwards", "replies", "reactions", "edited_at"),
    *("captured_at", "counters_at"),
)
MEDIA_COLUMNS = (
    *("post_id", "position", "kind", "file_id", "mime", "size", "width", "height", "duration", "name"),
    *("status", "reason", "next_attempt_at", "trace_id"),
)

_json = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of a post, as far as it tells whether anything changed."""

    message_id: int
    content_hash: str
    version: int
    counters: Counters
    pinned: bool
    deleted: bool
    grouped_id: int | None
    poll: dict[str, Any] | None
    preview: bool = False  # known only from a public page
    exported: bool = False  # only an export told of it so far


def to_json(value: Any) -> str:
    return _json.encode(value).decode()


def times_in(stored: Mapping[str, object]) -> dict[str, datetime]:
    """Times by name, out of a JSON column; what is no aware time is left out."""
    found = {}
    for name, value in stored.items():
        try:
            found[name] = as_utc(datetime.fromisoformat(str(value)))
        except ValueError:
            continue
    return found


async def stored_in(connection: Connection, channel_id: int, ids: Coverage) -> dict[int, Stored]:
    """What is stored of these ids. What lies between them is not read: there may be hundreds of thousands."""
    rows = await _within(
        connection,
        "message_id, content_hash, version, views, forwards, replies, reactions, pinned, grouped_id,"
        " details -> 'poll' AS poll, jsonb_exists(details, 'preview') AS preview,"
        " jsonb_exists(details, 'export') AS exported, deleted_at IS NOT NULL AS deleted",
        channel_id,
        ids,
    )
    return {row["message_id"]: _stored(row) for row in rows}


async def ids_in(connection: Connection, channel_id: int, ids: Coverage) -> list[int]:
    return [row["message_id"] for row in await _within(connection, "message_id", channel_id, ids)]


async def _within(connection: Connection, columns: str, channel_id: int, ids: Coverage) -> list[asyncpg.Record]:
    """One look into the index for each range. OFFSET 0 keeps the planner from reading all of the channel instead."""
    return await connection.fetch(
        "SELECT found.* FROM unnest($2::bigint[], $3::bigint[]) AS span(start, stop) CROSS JOIN LATERAL ("
        f"SELECT {columns} FROM posts WHERE channel_id = $1 AND message_id >= start AND message_id < stop OFFSET 0"
        ") AS found",
        channel_id,
        [start for start, _ in ids],
        [stop for _, stop in ids],
    )


def _stored(row: asyncpg.Record) -> Stored:
    return Stored(
        row["message_id"],
        row["content_hash"],
        row["version"],
        Counters.counted(
            views=row["views"], forwards=row["forwards"], replies=row["replies"], reactions=row["reactions"]
        ),
        row["pinned"],
        row["deleted"],
        row["grouped_id"],
        row["poll"],
        row["preview"],
        row["exported"],
    )


async def insert_posts(connection: Connection, posts: Sequence[Post], now: datetime) -> None:
    """COPY: the channel's row is locked and the page was compared, so nothing here can be there already."""
    records = [_new_row(post, now) for post in posts]
    await connection.copy_records_to_table("posts", records=records, columns=NEW_COLUMNS)


def _new_row(post: Post, now: datetime) -> tuple[object, ...]:
    counters = post.counters
    return (
        post.id,
        post.channel_id,
        post.message_id,
        post.posted_at,
        post.text,
        to_json(post.entities) if post.entities else "[]",
        post.urls,
        post.content_hash,
        post.grouped_id,
        details_of(post),
        post.pinned,
        bool(post.media),
        counters.views,
        counters.forwards,
        counters.replies,
        to_json(dict(counters.reactions)) if counters.reactions else "{}",
        post.edited_at,
        now,
        now,
    )


def details_of(post: Post) -> str:
    """Forward, reply, author, poll and service message: shown and sent on, never searched by themselves."""
    parts = (
        ("forward", post.forward),
        ("reply_to", post.reply_to),
        ("author", post.author),
        ("author_id", post.author_id),
        ("poll", post.poll),
        ("service", post.service),
        ("protected", post.protected or None),
        ("preview", post.preview),
        ("export", post.exported_at),
    )
    found = {name: part for name, part in parts if part is not None}
    return to_json(found) if found else "{}"


async def insert_media(
    connection: Connection,
    posts: Sequence[Post],
    decisions: Sequence[Sequence[MediaDecision]],
    now: datetime,
    trace_id: str,
) -> None:
    records = [
        (
            *(post.id, position, media.kind.value, media.file_id, media.mime, media.size, media.width, media.height),
            *(media.duration, media.name, decision.status, decision.reason, decision.held_until or now, trace_id),
        )
        for post, verdicts in zip(posts, decisions, strict=True)
        for position, (media, decision) in enumerate(zip(post.media, verdicts, strict=True))
    ]
    await connection.copy_records_to_table("post_media", records=records, columns=MEDIA_COLUMNS)


async def replace_posts(connection: Connection, posts: Sequence[Post], now: datetime) -> None:
    """Edits: what a post was becomes a version, its media go, and the new content takes their place."""
    ids = [post.id for post in posts]
    await connection.execute(
        "INSERT INTO post_versions (post_id, version, text, entities, media, content_hash, edited_at, seen_at)"
        " SELECT p.id, p.version, p.text, p.entities, coalesce((SELECT jsonb_agg(to_jsonb(m) - 'post_id'"
        " ORDER BY position) FROM post_media m WHERE m.post_id = p.id), '[]'), p.content_hash, p.edited_at, $2"
        " FROM posts p WHERE p.id = ANY($1)",
        ids,
        now,
    )
    await connection.execute("DELETE FROM post_media WHERE post_id = ANY($1)", ids)
    await connection.executemany(
        "UPDATE posts SET text = $2, entities = $3, urls = $4, content_hash = $5, grouped_id = $6, details = $7,"
        " has_media = $8, edited_at = $9, version = version + 1 WHERE id = $1",
        [
            (
                *(post.id, post.text, to_json(post.entities), post.urls, post.content_hash, post.grouped_id),
                *(details_of(post), bool(post.media), post.edited_at or post.exported_at or now),
            )
            for post in posts
        ],
    )


async def update_counters(connection: Connection, changed: Sequence[tuple[UUID, Counters]], now: datetime) -> None:
    """The old counters join the series, the new ones take their place."""
    ids = [id_ for id_, _ in changed]
    await connection.execute(
        "INSERT INTO post_counters (post_id, at, views, forwards, replies, reactions)"
        " SELECT id, counters_at, views, forwards, replies, reactions FROM posts WHERE id = ANY($1)"
        " ON CONFLICT DO NOTHING",
        ids,
    )
    await connection.execute(
        "UPDATE posts p SET views = n.views, forwards = n.forwards, replies = n.replies, reactions = n.reactions,"
        " counters_at = $6 FROM unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::jsonb[])"
        " AS n(id, views, forwards, replies, reactions) WHERE p.id = n.id",
        ids,
        [counters.views for _, counters in changed],
        [counters.forwards for _, counters in changed],
        [counters.replies for _, counters in changed],
        [to_json(dict(counters.reactions)) for _, counters in changed],
        now,
    )


async def update_details(connection: Connection, posts: Sequence[Post]) -> None:
    """Votes of a poll, and its end: they change without an edit."""
    await connection.executemany(
        "UPDATE posts SET details = $2 WHERE id = $1", [(post.id, details_of(post)) for post in posts]
    )


async def set_pinned(connection: Connection, ids: Sequence[UUID], *, pinned: bool) -> None:
    await connection.execute("UPDATE posts SET pinned = $2 WHERE id = ANY($1)", ids, pinned)


async def restore(connection: Connection, ids: Sequence[UUID]) -> None:
    """They were taken for deleted, and are there."""
    await connection.execute("UPDATE posts SET deleted_at = NULL, version = version + 1 WHERE id = ANY($1)", ids)


async def mark_deleted(connection: Connection, ids: Sequence[UUID], now: datetime, retention: str) -> None:
    """RETENTION_DELETED: keep them marked, mirror the deletion, or keep the row and redact what it said."""
    if retention == "mirror":
        await connection.execute("DELETE FROM posts WHERE id = ANY($1)", ids)
        return
    await connection.execute("UPDATE posts SET deleted_at = $2 WHERE id = ANY($1)", ids, now)
    if retention == "redact":
        await connection.execute(
            # Without its hash, or a post that comes back would be taken for unchanged.
            "UPDATE posts SET text = '', entities = '[]', urls = '{}', details = '{}', has_media = false,"
            " content_hash = '' WHERE id = ANY($1)",
            ids,
        )
        for table in ("post_versions", "post_media", "post_enrichment", "post_pages"):
            await connection.execute(f"DELETE FROM {table} WHERE post_id = ANY($1)", ids)
        # What a stage noted may quote the post; that it was there may stay.
        await connection.execute("UPDATE post_steps SET note = '' WHERE post_id = ANY($1)", ids)


@dataclass(frozen=True, slots=True)
class StoredAlbum:
    """The stored items of an album, in their order, and whether it was told to the world with so many."""

    id: UUID
    grouped_id: int
    items: list[asyncpg.Record]
    announced: bool
    known_since: datetime | None  # None: it is new

    @property
    def message_ids(self) -> tuple[int, ...]:
        return tuple(item["message_id"] for item in self.items)

    @property
    def last_posted_at(self) -> datetime:
        newest: datetime = max(item["posted_at"] for item in self.items)
        return newest

    @property
    def kind(self) -> str:
        return album_kind(MediaKind(kind) for item in self.items for kind in item["kinds"] or ())

    @property
    def caption(self) -> str:
        return "\n\n".join(item["text"] for item in self.items if item["text"])


async def stored_albums(connection: Connection, channel_id: int, grouped_ids: Collection[int]) -> list[StoredAlbum]:
    """These albums as their posts are now, together with those that are still open from before."""
    rows = await connection.fetch(
        "SELECT p.grouped_id, p.id, p.message_id, p.text, p.posted_at, g.announced_items, g.created_at,"
        " (SELECT array_agg(m.kind) FROM post_media m WHERE m.post_id = p.id) AS kinds"
        " FROM posts p LEFT JOIN media_groups g ON g.channel_id = p.channel_id AND g.grouped_id = p.grouped_id"
        " WHERE p.channel_id = $1 AND p.deleted_at IS NULL AND p.grouped_id = ANY("
        "SELECT unnest($2::bigint[]) UNION SELECT grouped_id FROM media_groups"
        " WHERE channel_id = $1 AND announced_items <> items_count) ORDER BY p.grouped_id, p.message_id",
        channel_id,
        list(grouped_ids),
    )
    by_group: dict[int, list[asyncpg.Record]] = {}
    for row in rows:
        by_group.setdefault(row["grouped_id"], []).append(row)
    return [
        StoredAlbum(
            *(album_id(channel_id, grouped_id), grouped_id, items),
            *(items[0]["announced_items"] == len(items), items[0]["created_at"]),
        )
        for grouped_id, items in by_group.items()
    ]


async def save_albums(
    connection: Connection, channel_id: int, albums: Sequence[StoredAlbum], announced: Collection[UUID]
) -> None:
    """Write them down, in one statement. Those that are `announced` are told to the world as they are now."""
    if not albums:
        return
    members = [(album.id, item["id"], place) for album in albums for place, item in enumerate(album.items)]
    await connection.execute(
        "WITH saved AS (INSERT INTO media_groups AS g (id, channel_id, grouped_id, album_kind, items_count,"
        " caption_text, posted_at, announced_items) SELECT id, $1, grouped_id, kind, items, caption, posted_at,"
        " CASE WHEN told THEN items ELSE 0 END FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::int[],"
        " $6::text[], $7::timestamptz[], $8::bool[]) AS n(id, grouped_id, kind, items, caption, posted_at, told)"
        " ON CONFLICT (id) DO UPDATE SET album_kind = excluded.album_kind, items_count = excluded.items_count,"
        " caption_text = excluded.caption_text, posted_at = excluded.posted_at,"
        " announced_items = coalesce(nullif(excluded.announced_items, 0), g.announced_items)),"
        " gone AS (DELETE FROM media_group_items WHERE group_id = ANY($2) AND NOT post_id = ANY($10))"
        " INSERT INTO media_group_items (group_id, post_id, position)"
        " SELECT * FROM unnest($9::uuid[], $10::uuid[], $11::int[])"
        " ON CONFLICT (group_id, post_id) DO UPDATE SET position = excluded.position",
        channel_id,
        [album.id for album in albums],
        [album.grouped_id for album in albums],
        [album.kind for album in albums],
        [len(album.items) for album in albums],
        [album.caption for album in albums],
        [album.items[0]["posted_at"] for album in albums],
        [album.id in announced for album in albums],
        [album for album, _, _ in members],
        [post for _, post, _ in members],
        [place for _, _, place in members],
    )


async def delete_albums(connection: Connection, channel_id: int, grouped_ids: Collection[int]) -> None:
    """Nothing is left of them."""
    await connection.execute(
        "DELETE FROM media_groups WHERE channel_id = $1 AND grouped_id = ANY($2)", channel_id, list(grouped_ids)
    )


# What a group hides from all accounts that read it is not asked for, until one comes that is shown more.
HIDE = """
WITH told AS (
    SELECT access_hash AS hashes, hidden || jsonb_build_object($2::text, $3::bigint) AS by_account FROM channels
    WHERE id = $1
), shown AS (
    SELECT by_account, coalesce((SELECT min(value::bigint) FROM jsonb_each_text(by_account) AS one(account, value)
        WHERE account = $2::text OR jsonb_exists(hashes, account)), 0) AS nothing_up_to FROM told
)
UPDATE channels SET hidden = by_account, hidden_up_to = nothing_up_to,
    requested_from = greatest(coalesce(hidden_asked, requested_from), nothing_up_to + 1),
    hidden_asked = CASE WHEN coalesce(hidden_asked, requested_from) <= nothing_up_to
        THEN coalesce(hidden_asked, requested_from) END
FROM shown WHERE id = $1 AND (hidden, hidden_up_to) IS DISTINCT FROM (by_account, nothing_up_to)
"""


@dataclass(frozen=True, slots=True)
class Locked:
    """What the saver needs of the channel whose row it holds."""

    username: str | None
    tenant_id: UUID | None
    coverage: Coverage
    newest_id: int
    requested_from: int | None
    protected: bool
    paused: bool


def coverage_of(ranges: list[asyncpg.Range[int]]) -> Coverage:
    return Coverage.of_spans(*((found.lower or 0, found.upper or 0) for found in ranges))  # bounds are always there


def ranges_of(coverage: Coverage) -> list[asyncpg.Range[int]]:
    return [asyncpg.Range(start, stop) for start, stop in coverage]


async def lock_channel(connection: Connection, channel_id: int) -> Locked | None:
    """Hold the row until the transaction ends, so that two readers of one channel take turns.

    None where it is not watched any more: live updates and a backfill know nothing of that.
    """
    row = await connection.fetchrow(
        "SELECT username, tenant_id, coverage, newest_id, requested_from, protected, status FROM channels"
        " WHERE id = $1 AND status <> 'removed' FOR UPDATE",
        channel_id,
    )
    if row is None:
        return None
    coverage = coverage_of(row["coverage"])
    known = row["newest_id"], row["requested_from"], row["protected"], row["status"] == "paused"
    return Locked(row["username"], row["tenant_id"], coverage, *known)


async def record_reading(
    connection: Connection,
    channel_id: int,
    *,
    coverage: Coverage,
    newest_id: int,
    cursor_id: int | None,
    captured: int,
    last_post_at: datetime | None,
    parsed_at: datetime | None = None,
    hidden: tuple[str, int] | None = None,
) -> None:
    """Ledger and cursor move with the posts, in their transaction.

    `parsed_at` is when posts came outside of a visit; a channel that was never visited is still to be.
    """
    await connection.execute(
        "UPDATE channels SET coverage = $2, newest_id = greatest(newest_id, $3),"
        " cursor_id = greatest(cursor_id, coalesce($4, 0)), captured = captured + $5,"
        " last_post_at = greatest(last_post_at, $6),"
        " last_parsed_at = CASE WHEN last_parsed_at IS NOT NULL THEN coalesce($7, last_parsed_at) END WHERE id = $1",
        channel_id,
        ranges_of(coverage),
        newest_id,
        cursor_id,
        captured,
        last_post_at,
        parsed_at,
    )
    if hidden is not None:
        await connection.execute(HIDE, channel_id, *hidden)
