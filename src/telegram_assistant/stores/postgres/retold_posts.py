"""Posts that are known from elsewhere, too: a public page or an export told of them, and Telegram itself does now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.stores.postgres.posts import Connection, details_of, to_json


@dataclass(frozen=True, slots=True)
class State:
    """How recent what is stored of a post is."""

    seen_at: datetime  # when we saw its content, or saw it disappear
    edited_at: datetime | None
    deleted: bool
    text: str
    kinds: tuple[str, ...]  # of its media
    poll: tuple[str, ...]  # its words

    def reads_like(self, post: Post) -> bool:
        """Whether a reader sees the same. An export leaves out nested formatting, and names files in its own way."""
        kinds = tuple(media.kind.value for media in post.media)
        poll = () if post.poll is None else (post.poll.question, *post.poll.answers)
        return (self.text, self.kinds, self.poll) == (post.text, kinds, poll)


async def states_of(connection: Connection, ids: Collection[UUID]) -> dict[UUID, State]:
    rows = await connection.fetch(
        "SELECT p.id, p.edited_at, p.deleted_at IS NOT NULL AS deleted, p.text, p.details -> 'poll' AS poll,"
        " greatest(p.deleted_at, coalesce((p.details ->> 'export')::timestamptz, greatest(p.captured_at,"
        " (SELECT max(v.seen_at) FROM post_versions v WHERE v.post_id = p.id)))) AS seen_at,"
        " (SELECT array_agg(m.kind ORDER BY m.position) FROM post_media m WHERE m.post_id = p.id) AS kinds"
        " FROM posts p WHERE p.id = ANY($1)",
        list(ids),
    )
    return {row["id"]: _state(row) for row in rows}


def _state(row: asyncpg.Record) -> State:
    poll = row["poll"] or {}
    words = (poll["question"], *poll["answers"]) if poll else ()
    seen = row["seen_at"], row["edited_at"], row["deleted"]
    return State(*seen, row["text"], tuple(row["kinds"] or ()), words)


async def texts_of(connection: Connection, ids: Collection[UUID]) -> dict[int, str]:
    """By message; all of one channel."""
    rows = await connection.fetch("SELECT message_id, text FROM posts WHERE id = ANY($1)", list(ids))
    return {row["message_id"]: row["text"] for row in rows}


async def refine_posts(connection: Connection, posts: Sequence[Post], renewed: Collection[UUID]) -> None:
    """Telegram itself tells what only a page told before: no edit. The files of those `renewed` are others now."""
    await connection.execute("DELETE FROM post_media WHERE post_id = ANY($1)", list(renewed))
    await connection.executemany(
        "UPDATE posts SET text = $2, entities = $3, urls = $4, content_hash = $5, grouped_id = $6, details = $7,"
        " has_media = $8, edited_at = $9 WHERE id = $1",
        [
            (
                *(post.id, post.text, to_json(post.entities), post.urls, post.content_hash, post.grouped_id),
                *(details_of(post), bool(post.media), post.edited_at),
            )
            for post in posts
        ],
    )


async def take_over(
    connection: Connection, posts: Sequence[Post], decisions: Sequence[Sequence[MediaDecision]], now: datetime
) -> None:
    """Telegram itself tells of posts that only an export told of, and a reader sees the same: no version, no edit.

    What the export left out is filled in. Files that came with it stay.
    """
    await connection.executemany(
        "UPDATE posts SET posted_at = $2, entities = $3, urls = $4, content_hash = $5, grouped_id = $6, details = $7,"
        " edited_at = $8 WHERE id = $1",
        [
            (
                *(post.id, post.posted_at, to_json(post.entities), post.urls, post.content_hash, post.grouped_id),
                *(details_of(post), post.edited_at),
            )
            for post in posts
        ],
    )
    await connection.executemany(
        "UPDATE post_media SET file_id = $3, mime = $4, size = $5, width = $6, height = $7, duration = $8, name = $9,"
        " status = CASE WHEN sha256 IS NULL THEN $10 ELSE status END, attempts = 0,"
        " reason = CASE WHEN sha256 IS NULL THEN $11 ELSE reason END,"
        " next_attempt_at = CASE WHEN sha256 IS NULL THEN $12::timestamptz END WHERE post_id = $1 AND position = $2",
        [
            (
                *(post.id, position, media.file_id, media.mime, media.size, media.width, media.height),
                *(media.duration, media.name, decision.status, decision.reason, now),
            )
            for post, verdicts in zip(posts, decisions, strict=True)
            for position, (media, decision) in enumerate(zip(post.media, verdicts, strict=True))
        ],
    )
