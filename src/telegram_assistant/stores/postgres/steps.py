"""How posts came here: the latest step of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.letters import Step
from telegram_assistant.domain.text import clean_text
from telegram_assistant.names import INDEXING, TELETHON_INGEST
from telegram_assistant.stores.postgres.database import raw_transaction

LONGEST_NOTE = 500

_OF = "SELECT stage, outcome, note, trace_id, duration_ms, at FROM post_steps WHERE post_id = :post ORDER BY at"

# A step about words that the post no longer has does not hide the one about those that it has; of several in one batch
# the last counts. In one order, so that two processes do not wait for each other.
_RECORD = """
INSERT INTO post_steps AS s (post_id, stage, outcome, note, content_hash, trace_id, duration_ms, at)
SELECT DISTINCT ON (n.post_id, n.stage)
  n.post_id, n.stage, n.outcome, n.note, n.content_hash, n.trace_id, n.duration_ms, clock_timestamp()
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::float8[]) WITH ORDINALITY
  AS n(post_id, stage, outcome, note, content_hash, trace_id, duration_ms, place)
JOIN posts p ON p.id = n.post_id
ORDER BY n.post_id, n.stage, n.content_hash IN ('', p.content_hash) DESC, n.place DESC
ON CONFLICT (post_id, stage) DO UPDATE SET outcome = excluded.outcome, note = excluded.note,
  content_hash = excluded.content_hash, trace_id = excluded.trace_id, duration_ms = excluded.duration_ms,
  at = excluded.at
WHERE excluded.content_hash IN ('', s.content_hash)
  OR s.content_hash <> (SELECT p.content_hash FROM posts p WHERE p.id = s.post_id)
"""

# Posts that are long enough for a stage, and for what they say now it is not done.
_LACKING = """
SELECT count(*) FROM posts p
JOIN channels c ON c.id = p.channel_id AND c.status <> 'removed'
WHERE p.deleted_at IS NULL AND length(btrim(p.text)) >= :chars
  AND NOT EXISTS (SELECT 1 FROM post_steps s WHERE s.post_id = p.id AND s.stage = :stage
                  AND s.content_hash = p.content_hash AND s.outcome = 'done')
"""


_INDEXED = (
    "FROM post_steps s JOIN posts p ON p.id = s.post_id"
    " WHERE s.stage = :stage AND s.outcome = 'done' AND p.deleted_at IS NULL"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step as it is shown."""

    stage: str
    outcome: str
    note: str
    trace_id: str
    duration_ms: float
    at: datetime


class Steps:
    """The table `post_steps`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def record(self, steps: Sequence[Step]) -> None:
        async with raw_transaction(self._database) as connection:
            await connection.execute(
                _RECORD,
                [step.post_id for step in steps],
                [step.stage for step in steps],
                [step.outcome for step in steps],
                [clean_text(step.note)[:LONGEST_NOTE] for step in steps],
                [step.content_hash for step in steps],
                [step.trace_id for step in steps],
                [step.duration_ms for step in steps],
            )

    async def of(self, post_id: UUID) -> list[Recorded]:
        """In the order in which they happened."""
        async with self._database.connect() as connection:
            return [Recorded(*row) for row in await connection.execute(text(_OF), {"post": post_id})]

    async def indexed_after(self, after: UUID | None, *, limit: int) -> list[UUID]:
        """Posts that the indexes should have, in the order of their ids."""
        statement = text(f"SELECT s.post_id {_INDEXED} AND s.post_id > :after ORDER BY s.post_id LIMIT :limit")
        values = {"stage": INDEXING, "after": after or UUID(int=0), "limit": limit}
        async with self._database.connect() as connection:
            return [row.post_id for row in await connection.execute(statement, values)]

    async def count_indexed(self) -> int:
        async with self._database.connect() as connection:
            return int(await connection.scalar(text(f"SELECT count(*) {_INDEXED}"), {"stage": INDEXING}) or 0)

    async def lacking(self, stage: str, *, min_chars: int = 0) -> int:
        """How many posts a stage has still to do, whether they wait, failed or were never told of."""
        async with self._database.connect() as connection:
            found = await connection.scalar(text(_LACKING), {"stage": stage, "chars": min_chars})
        return int(found or 0)


async def path_of(connection: AsyncConnection, post_id: UUID) -> list[Recorded]:
    """From the capture on, as far as the connection may see it; empty: there is no such post."""
    statement = text("SELECT captured_at, posted_at FROM posts WHERE id = :post")
    row = (await connection.execute(statement, {"post": post_id})).one_or_none()
    if row is None:
        return []
    note = f"posted {row.posted_at:%Y-%m-%d %H:%M:%S} UTC"
    captured = Recorded(TELETHON_INGEST, "done", note, "", 0.0, row.captured_at)
    return [captured, *(Recorded(*step) for step in await connection.execute(text(_OF), {"post": post_id}))]
