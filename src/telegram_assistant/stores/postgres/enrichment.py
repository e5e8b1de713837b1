"""What the pipeline knows of posts (`post_enrichment`): tags, what was seen, what an album shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.jsonb import as_jsonb

# Only what belongs to the words that the post has now; what a more knowing run found is not overwritten.
_SAVE = """
INSERT INTO post_enrichment AS e (post_id, kind, content_hash, data, provider)
SELECT n.post_id, $1, n.content_hash, n.data::jsonb, n.provider
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) AS n(post_id, content_hash, data, provider)
JOIN posts p ON p.id = n.post_id AND p.content_hash = n.content_hash
ON CONFLICT (post_id, kind) DO UPDATE SET content_hash = excluded.content_hash, data = excluded.data,
  provider = excluded.provider, updated_at = now()
WHERE (e.content_hash, e.data, e.provider) IS DISTINCT FROM (excluded.content_hash, excluded.data, excluded.provider)
  AND NOT (e.content_hash = excluded.content_hash
           AND coalesce((e.data->>'rank')::int, 0) > coalesce((excluded.data->>'rank')::int, 0))
RETURNING post_id
"""


@dataclass(frozen=True, slots=True)
class Enrichment:
    """One finding about one post. `rank` in the data: of two findings about the same words the higher one stays."""

    post_id: UUID
    content_hash: str
    data: Mapping[str, Any]
    provider: str


class Enrichments:
    """The table `post_enrichment`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def save(self, kind: str, found: Sequence[Enrichment]) -> set[UUID]:
        """The posts for which something changed."""
        latest: dict[tuple[UUID, str], Enrichment] = {}
        for one in found:
            # By their words too: which of them the post has now is known to the table alone.
            about = one.post_id, one.content_hash
            known = latest.get(about)
            if known is None or int(one.data.get("rank", 0)) >= int(known.data.get("rank", 0)):
                latest[about] = one
        rows = [latest[about] for about in sorted(latest)]
        async with raw_transaction(self._database) as connection:
            changed = await connection.fetch(
                _SAVE,
                kind,
                [row.post_id for row in rows],
                [row.content_hash for row in rows],
                [as_jsonb(row.data) for row in rows],
                [row.provider for row in rows],
            )
        return {row["post_id"] for row in changed}

    async def of(self, kind: str, post_ids: Sequence[UUID]) -> dict[UUID, Enrichment]:
        statement = text(
            "SELECT post_id, content_hash, data, provider FROM post_enrichment"
            " WHERE kind = :kind AND post_id = ANY(:ids)"
        )
        async with self._database.connect() as connection:
            rows = await connection.execute(statement, {"kind": kind, "ids": list(post_ids)})
            return {row.post_id: Enrichment(*row) for row in rows}
