"""Posts that a tenant sees, many at once: for searches, lists, the start page, the graph and live updates.

All are read under row-level security (G7).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.channel import parse_ref
from telegram_assistant.domain.results import Origin, Passage, Shown
from telegram_assistant.stores.postgres.channels import WATCHED
from telegram_assistant.stores.postgres.database import Found, Store, as_tenant, as_value

LONGEST_PAGE = 2000  # characters, as many as indexing takes
MOST_NEW = 100  # posts that are counted
LONGEST_BRIEF = 160  # characters of a post: enough to know whether it is worth opening

_SHOWN = f"""
SELECT p.id AS post_id, p.channel_id, p.message_id, p.posted_at, p.text, p.details->'poll' AS poll,
  c.title AS channel_title, c.username AS channel_username, coalesce(c.tenant_id, '{SYSTEM_TENANT}') AS owner,
  p.edited_at IS NOT NULL AS edited, p.deleted_at IS NOT NULL AS deleted,
  (SELECT array_agg(concat_ws(E'\\n', r.data->>'description', r.data->'ocr'->>'text') ORDER BY m.position)
   FROM post_media m JOIN picture_results r ON r.sha256 = m.sha256 WHERE m.post_id = p.id) AS pictures,
  (SELECT array_agg(concat_ws(E'\\n', w.title, coalesce(nullif(w.description, ''), left(w.text, {LONGEST_PAGE}))))
   FROM post_pages l JOIN web_pages w ON w.url = l.url WHERE l.post_id = p.id) AS pages
FROM posts p JOIN channels c ON c.id = p.channel_id WHERE p.id = ANY(:ids)
"""
_ALBUMS = """
SELECT i.group_id, array_agg(i.post_id ORDER BY i.position) AS posts FROM media_group_items i
WHERE i.group_id = ANY(:ids) GROUP BY i.group_id
"""
_PICTURES = """
SELECT post_id, array_agg(sha256 ORDER BY position) AS pictures FROM post_media
WHERE post_id = ANY(:ids) AND kind = 'photo' AND sha256 IS NOT NULL AND status <> 'evicted' GROUP BY post_id
"""
_OVERVIEW = """
SELECT count(*) AS channels, coalesce(sum(c.captured), 0)::bigint AS posts, max(c.last_post_at) AS newest,
  coalesce(sum((SELECT count(*) FROM posts p WHERE p.channel_id = c.id AND p.posted_at >= :since)), 0)::bigint
    AS recent,
  (SELECT count(*) FROM channel_requests WHERE channel_id IS NULL) AS waiting
FROM channels c WHERE c.status NOT IN ('linked', 'removed')
"""
_NEW = """
SELECT count(DISTINCT coalesce(album_id, post_id)) FROM (
  SELECT album_id, post_id FROM search_documents WHERE (posted_at, post_id) > (:at, CAST(:id AS uuid)) AND NOT deleted
  ORDER BY posted_at, post_id LIMIT :most) n
"""
_SHARED = """
WITH seen AS MATERIALIZED (
  SELECT p.id, p.channel_id, (p.details->'forward'->>'channel_id')::bigint AS origin, e.data
  FROM posts p LEFT JOIN post_enrichment e ON e.post_id = p.id AND e.kind = 'tags'
  WHERE p.id = ANY(:ids) AND p.deleted_at IS NULL)
SELECT 'all' AS kind, '' AS key, '' AS title, '' AS sort, count(*) AS posts FROM seen
UNION ALL SELECT 'channel', c.id::text, c.title, '', count(*) FROM seen JOIN channels c ON c.id = seen.channel_id
  GROUP BY c.id, c.title
UNION ALL SELECT 'source', c.id::text, c.title, '', count(*) FROM seen JOIN channels c ON c.id = seen.origin
  GROUP BY c.id, c.title
UNION ALL SELECT 'topic', one, one, '', count(*)
  FROM seen, jsonb_array_elements_text(coalesce(data->'topics', '[]')) one GROUP BY one
UNION ALL SELECT 'tag', one, one, '', count(*)
  FROM seen, jsonb_array_elements_text(coalesce(data->'tags', '[]')) one GROUP BY one
UNION ALL SELECT 'entity', one->>'name', one->>'name', min(one->>'kind'), count(DISTINCT id)
  FROM seen, jsonb_array_elements(coalesce(data->'entities', '[]')) one GROUP BY one->>'name'
ORDER BY posts DESC, key
"""


@dataclass(frozen=True, slots=True)
class LivePost:
    """A post in short."""

    id: UUID
    channel_id: int
    channel: str
    posted_at: datetime
    text: str
    has_media: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """The archive in numbers. `waiting`: channels that were asked for and not found yet."""

    channels: int
    posts: int
    newest: datetime | None
    recent: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Shared:
    """Something that posts have in common, and how many of them have it."""

    key: str
    title: str
    sort: str  # of an entity: person, organisation, place
    posts: int


class VisiblePosts(Store):
    """Posts and channels that a tenant sees."""

    async def channels(self, tenant_id: UUID) -> tuple[int, ...]:
        """All that the tenant sees."""
        rows = await self._rows("SELECT id FROM channels ORDER BY id", tenant=tenant_id)
        return tuple(row.id for row in rows)

    async def named(self, tenant_id: UUID, names: Sequence[str]) -> dict[str, int]:
        """Channels by what they are called: @name, a link, an id, or their title. Unknown ones are left out."""
        found: dict[str, int] = {}
        async with as_tenant(self._database, tenant_id) as connection:
            for name in names:
                row = (await connection.execute(*_named(name))).first()
                if row is not None:
                    found[name] = row.id
        return found

    async def others(self, channels: Sequence[int]) -> list[int]:
        """All channels but these, of all tenants: to leave them out, never to show them."""
        statement = "SELECT id FROM channels WHERE id <> ALL(:ids)"
        return [row.id for row in await self._rows(statement, {"ids": list(channels)})]

    async def names(self, tenant_id: UUID, channel_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Their titles, and how a query calls them."""
        statement = "SELECT id, title, coalesce('@' || username, id::text) AS name FROM channels WHERE id = ANY(:ids)"
        rows = await self._rows(statement, {"ids": list(channel_ids)}, tenant=tenant_id)
        return {row.id: (row.title, row.name) for row in rows}

    async def posts(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, Shown]:
        """Those that the tenant may see."""
        if not post_ids:
            return {}
        rows = await self._rows(_SHOWN, {"ids": list(post_ids)}, tenant=tenant_id)
        return {row.post_id: _shown(row) for row in rows}

    async def albums(self, tenant_id: UUID, album_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        """The posts of albums, in their order."""
        if not album_ids:
            return {}
        rows = await self._rows(_ALBUMS, {"ids": list(album_ids)}, tenant=tenant_id)
        return {row.group_id: tuple(row.posts) for row in rows}

    async def pictures(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, tuple[str, ...]]:
        """SHA-256 of the photos that are stored, in their order."""
        if not post_ids:
            return {}
        rows = await self._rows(_PICTURES, {"ids": list(post_ids)}, tenant=tenant_id)
        return {row.post_id: tuple(row.pictures) for row in rows}

    async def brief(self, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, LivePost]:
        """Those of them that the tenant may see and that still exist."""
        statement = (
            "SELECT p.id, p.channel_id, c.title, p.posted_at, left(p.text, :longest), p.has_media"
            " FROM posts p JOIN channels c ON c.id = p.channel_id"
            f" WHERE p.id = ANY(:ids) AND p.deleted_at IS NULL AND c.{WATCHED}"
        )
        rows = await self._rows(statement, {"ids": list(ids), "longest": LONGEST_BRIEF}, tenant=tenant_id)
        return {row[0]: LivePost(*row) for row in rows}

    async def overview(self, tenant_id: UUID, *, since: datetime) -> Overview:
        """`since`: from when on a post is recent."""
        [row] = await self._rows(_OVERVIEW, {"since": since}, tenant=tenant_id)
        return Overview(*row)

    async def searchable(self, tenant_id: UUID) -> bool:
        """Whether any post can be found."""
        statement = "SELECT EXISTS (SELECT 1 FROM search_documents WHERE NOT deleted)"
        return bool(await self._value(statement, tenant=tenant_id))

    async def new_after(self, tenant_id: UUID, posted_at: datetime, post_id: UUID) -> int:
        """How many came after this post, albums counted once."""
        values = {"at": posted_at, "id": post_id, "most": MOST_NEW}
        return int(await self._value(_NEW, values, tenant=tenant_id))

    async def shared(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[str, list[Shared]]:
        """By kind, the commonest first; `all` has the number of posts that the tenant sees."""
        found: dict[str, list[Shared]] = defaultdict(list)
        for row in await self._rows(_SHARED, {"ids": list(post_ids)}, tenant=tenant_id):
            found[row.kind].append(Shared(row.key, row.title, row.sort or "", row.posts))
        return dict(found)


def _named(name: str) -> tuple[Any, dict[str, Any]]:
    try:
        ref = parse_ref(name)
    except ValueError:
        ref = None
    if ref is not None and ref.channel_id is not None:
        return text("SELECT id FROM channels WHERE id = :id"), {"id": ref.channel_id}
    username = ref.username if ref is not None else None
    statement = (
        "SELECT id FROM channels WHERE lower(username) = CAST(:username AS text) OR lower(title) = lower(:title)"
        " ORDER BY lower(username) IS DISTINCT FROM CAST(:username AS text), id LIMIT 1"
    )
    return text(statement), {"username": username, "title": name.removeprefix("@")}


def _shown(row: Found) -> Shown:
    poll = row.poll or {}
    asked = [str(poll.get("question", "")), *map(str, poll.get("answers", ()))]
    own = "\n\n".join(part for part in (row.text, "\n".join(asked)) if part.strip())
    texts = [(Origin.TEXT, own)]
    texts += [(Origin.PICTURE, words) for words in row.pictures or ()]
    texts += [(Origin.PAGE, words) for words in row.pages or ()]
    passages = [Passage(origin, words) for origin, words in texts if words and words.strip()]
    return as_value(Shown, row, passages=passages)
