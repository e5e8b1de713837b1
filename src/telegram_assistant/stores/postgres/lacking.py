"""What posts lack: a page of them compared with what every stage should have made of them by now.

Where a stage leaves a result in the tables, the result is looked for and not the step that says so. What waits for its
next attempt, or lies in the dead letters, is not missing; only of the way that it waits on: a picture that cannot be
looked at keeps no post from its tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

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
from telegram_assistant.stores.postgres.outbox import remember
from telegram_assistant.stores.postgres.posts import Connection

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


async def page(
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
