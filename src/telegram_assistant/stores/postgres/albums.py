"""Media groups: what is known of an album, over all pages and visits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from telegram_assistant.domain.album import album_id, album_kind
from telegram_assistant.domain.post import MediaKind
from telegram_assistant.stores.postgres.posts import Connection


@dataclass(frozen=True, slots=True)
class StoredAlbum:
    """An album as it stands after the save, with what tells whether it is whole."""

    id: UUID
    message_ids: tuple[int, ...]
    last_posted_at: datetime
    announced: bool


async def save_albums(connection: Connection, channel_id: int, grouped_ids: Collection[int]) -> list[StoredAlbum]:
    """Bring the albums of these groups up to date, together with those still open from before."""
    rows = await connection.fetch(
        "SELECT p.grouped_id, p.id, p.message_id, p.text, p.posted_at, g.announced_items,"
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
    if by_group:
        await _write(connection, channel_id, by_group)
    if gone := [grouped_id for grouped_id in grouped_ids if grouped_id not in by_group]:
        # Nothing is left of them.
        await connection.execute(
            "DELETE FROM media_groups WHERE channel_id = $1 AND grouped_id = ANY($2)", channel_id, gone
        )
    return [
        StoredAlbum(
            album_id(channel_id, grouped_id),
            tuple(item["message_id"] for item in items),
            max(item["posted_at"] for item in items),
            announced=items[0]["announced_items"] == len(items),
        )
        for grouped_id, items in by_group.items()
    ]


async def _write(connection: Connection, channel_id: int, by_group: dict[int, list[asyncpg.Record]]) -> None:
    await connection.executemany(
        "INSERT INTO media_groups (id, channel_id, grouped_id, album_kind, items_count, caption_text, posted_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET album_kind = excluded.album_kind,"
        " items_count = excluded.items_count, caption_text = excluded.caption_text, posted_at = excluded.posted_at",
        [
            (
                *(album_id(channel_id, grouped_id), channel_id, grouped_id, _kind(items), len(items)),
                *("\n\n".join(item["text"] for item in items if item["text"]), items[0]["posted_at"]),
            )
            for grouped_id, items in by_group.items()
        ],
    )
    members = [
        (album_id(channel_id, grouped_id), item["id"], position)
        for grouped_id, items in by_group.items()
        for position, item in enumerate(items)
    ]
    await connection.execute(
        "DELETE FROM media_group_items WHERE group_id = ANY($1) AND NOT post_id = ANY($2)",
        [group for group, _, _ in members],
        [post for _, post, _ in members],
    )
    await connection.executemany(
        "INSERT INTO media_group_items (group_id, post_id, position) VALUES ($1, $2, $3)"
        " ON CONFLICT (group_id, post_id) DO UPDATE SET position = excluded.position",
        members,
    )


def _kind(items: list[asyncpg.Record]) -> str:
    return album_kind(MediaKind(kind) for item in items for kind in item["kinds"] or ())


async def announce(connection: Connection, ids: Collection[UUID]) -> None:
    """Remember that these albums are told to the world as they are now."""
    await connection.execute("UPDATE media_groups SET announced_items = items_count WHERE id = ANY($1)", list(ids))
