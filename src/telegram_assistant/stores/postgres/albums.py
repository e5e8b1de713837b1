"""Media groups: what is known of an album, over all pages and visits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from telegram_assistant.domain.album import album_id, album_kind
from telegram_assistant.domain.post import MediaKind
from telegram_assistant.stores.postgres.posts import Connection


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
