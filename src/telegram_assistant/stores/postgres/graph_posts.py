"""What the posts around a node of the graph have in common, counted over those that a tenant sees (G7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import as_tenant

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
class Shared:
    """Something that posts have in common, and how many of them have it."""

    key: str
    title: str
    sort: str  # of an entity: person, organisation, place
    posts: int


class GraphPosts:
    """Reads as a tenant."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def shared(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[str, list[Shared]]:
        """By kind, the commonest first; `all` has the number of posts that the tenant sees."""
        found: dict[str, list[Shared]] = defaultdict(list)
        async with as_tenant(self._database, tenant_id) as connection:
            for row in await connection.execute(text(_SHARED), {"ids": list(post_ids)}):
                found[row.kind].append(Shared(row.key, row.title, row.sort or "", row.posts))
        return dict(found)
