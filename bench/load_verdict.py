"""After a load run: what the simulated Telegram holds beside what the tables and the indexes hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph

TENANT = UUID(SYSTEM_TENANT)
LIVE = "SELECT id, channel_id, message_id, md5(text) AS digest FROM posts WHERE deleted_at IS NULL"
# Posts whose words of now were not indexed, and that no dead letter tells of.
UNINDEXED = """
SELECT count(*) FROM posts p
LEFT JOIN post_steps s ON s.post_id = p.id AND s.stage = 'indexing' AND s.content_hash = p.content_hash
  AND s.outcome = 'done'
WHERE p.deleted_at IS NULL AND s.post_id IS NULL AND NOT EXISTS (
  SELECT 1 FROM dead_letters d WHERE d.replayed_at IS NULL AND d.payload->>'post_id' = p.id::text)
"""
LETTERS = "SELECT stage, reason FROM dead_letters WHERE replayed_at IS NULL"


@dataclass(frozen=True)
class Verdict:
    """Counts of posts; all but the first four must be zero."""

    truth: int
    stored: int
    vectors: int
    nodes: int
    missing: int  # in the truth and not stored
    doubled: int  # stored, or in the vectors, more than once
    other_text: int
    not_deleted: int  # stored and not in the truth
    unindexed: int
    without_vector: int
    left_in_vectors: int  # there, although the post is gone
    letters: Counter[str]

    @property
    def wrong(self) -> dict[str, int]:
        counted = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        good = {"truth", "stored", "vectors", "nodes"}
        found = {name: value for name, value in counted.items() if name not in good and value}
        if self.nodes != self.stored:
            found["nodes that are too many or too few"] = abs(self.nodes - self.stored)
        return found | ({"dead letters": self.letters.total()} if self.letters else {})


async def judge(database: AsyncEngine, truth: dict[tuple[int, int], str], folder: Path) -> Verdict:
    """The indexes are read from their folder: the process that held them must have ended."""
    rows = await _rows(database, LIVE)
    stored = {(row.channel_id, row.message_id): row.digest for row in rows}
    live = {row.id for row in rows}
    vectors, nodes = await _indexes(folder)
    letters = await _rows(database, LETTERS)
    doubles = sum(count - 1 for count in vectors.values())
    return Verdict(
        truth=len(truth),
        stored=len(stored),
        vectors=len(vectors),
        nodes=nodes,
        missing=len(truth.keys() - stored.keys()),
        doubled=len(rows) - len(stored) + doubles,
        other_text=sum(truth[key] != stored[key] for key in truth.keys() & stored.keys()),
        not_deleted=len(stored.keys() - truth.keys()),
        unindexed=int((await _rows(database, UNINDEXED))[0][0]),
        without_vector=len(live - vectors.keys()),
        left_in_vectors=len(vectors.keys() - live),
        letters=Counter(f"{row.stage}: {row.reason[:90]}" for row in letters),
    )


async def saved_at(database: AsyncEngine) -> dict[UUID, float]:
    """When each post was captured, in epoch seconds."""
    rows = await _rows(database, "SELECT id, captured_at FROM posts")
    return {row.id: row.captured_at.timestamp() for row in rows}


async def found_from(database: AsyncEngine) -> dict[UUID, float]:
    """Since when each post is found by its words, in epoch seconds."""
    rows = await _rows(database, "SELECT post_id, indexed_at FROM search_documents")
    return {row.post_id: row.indexed_at.timestamp() for row in rows}


async def settled(database: AsyncEngine, alive: int) -> bool:
    """As many posts as there are, and each is indexed or a dead letter."""
    stored = await _rows(database, "SELECT count(*) FROM posts WHERE deleted_at IS NULL")
    return int(stored[0][0]) == alive and not (await _rows(database, UNINDEXED))[0][0]


async def _indexes(folder: Path) -> tuple[Counter[UUID], int]:
    vectors, graph = EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph")
    found: Counter[UUID] = Counter()
    try:
        model = await vectors.current(TENANT)
        if model is not None:
            async for piece in vectors.ids(TENANT, model):
                found.update(piece)
        counted = await graph.counts(TENANT)
    finally:
        await vectors.close()
        await graph.close()
    return found, counted["Post"]


async def _rows(database: AsyncEngine, statement: str) -> list[Any]:
    async with database.connect() as connection:
        return list(await connection.execute(text(statement)))
