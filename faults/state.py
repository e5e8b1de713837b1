"""What an installation holds beside what is true: lost, doubled, stranded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from faults.installation import Installation, stop_roles
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.post import post_id
from telegram_assistant.index.cypher import Steps
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph

TENANT = UUID(SYSTEM_TENANT)

POSTS = "SELECT channel_id, message_id, text, deleted_at IS NOT NULL AS deleted FROM posts"
# Stored, and the words of now did not come to their end: not indexed, not tagged, or a file not fetched.
STRANDED = """
SELECT count(*) AS posts FROM posts p WHERE p.deleted_at IS NULL AND p.channel_id = ANY(:channels) AND (
  NOT EXISTS (SELECT 1 FROM post_steps s WHERE s.post_id = p.id AND s.stage = 'indexing'
              AND s.content_hash = p.content_hash AND s.outcome = 'done')
  OR NOT EXISTS (SELECT 1 FROM post_enrichment t WHERE t.post_id = p.id AND t.kind = 'tags'
                 AND t.content_hash = p.content_hash)
  OR NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.post_id = p.id)
  OR EXISTS (SELECT 1 FROM post_media m WHERE m.post_id = p.id AND m.status NOT IN ('stored', 'skipped')))
"""


@dataclass(frozen=True)
class Losses:
    """Posts. All of these must be 0."""

    lost: int  # in Telegram, and not stored as they are there
    doubled: int
    stranded: int  # stored, and some stage or index never finished with them

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.stranded)

    def __add__(self, other: Losses) -> Losses:
        return Losses(self.lost + other.lost, self.doubled + other.doubled, self.stranded + other.stranded)

    def __str__(self) -> str:
        return f"{self.lost}, {self.doubled}, {self.stranded}"


async def losses(lane: Installation) -> Losses:
    """By the tables, while everything runs."""
    told = {
        (channel.id, message.id): message.text
        for channel in lane.telegram.channels
        for message in channel.messages.values()
        if (channel.id, message.id) not in lane.telegram.unreadable
    }
    rows = await lane.rows(POSTS)
    stored = {(row.channel_id, row.message_id): None if row.deleted else row.text for row in rows}
    lost = sum(stored.get(key) != words for key, words in told.items())
    kept = sum(words is not None and key not in told for key, words in stored.items() if key[0] in _ours(lane))
    stranded = await lane.rows(STRANDED, channels=sorted(_ours(lane)))
    return Losses(lost + kept, len(rows) - len(stored), int(stranded[0].posts))


def _ours(lane: Installation) -> set[int]:
    return set(lane.telegram.world.channels)


async def index_losses(lane: Installation) -> Losses:
    """By the indexes themselves. They belong to a process while it runs, so everything is stopped for it."""
    await stop_roles(lane.slots)
    try:
        wanted = {
            post_id(channel.id, message.id)
            for channel in lane.telegram.channels
            for message in channel.messages.values()
        }
        stored = {row.id for row in await lane.rows("SELECT id FROM posts WHERE deleted_at IS NULL")}
        found = await _held(lane.data)
        missing = set().union(*(wanted & stored - index.keys() for index in found))
        doubled = sum(count - 1 for index in found for count in index.values())
        return Losses(0, doubled, len(missing))
    finally:
        for slot in lane.slots:
            await slot.start()


async def _held(folder: Path) -> tuple[Counter[UUID], Counter[UUID]]:
    vectors, graph = EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph")
    in_vectors: Counter[UUID] = Counter()
    try:
        model = await vectors.current(TENANT)
        if model is not None:
            async for piece in vectors.ids(TENANT, model):
                in_vectors.update(piece)
        in_graph = Counter(await graph.read(_post_ids))
    finally:
        await vectors.close()
        await graph.close()
    return in_vectors, in_graph


def _post_ids() -> Steps[list[UUID]]:
    """Posts that are only replied to have no date."""
    rows = yield "MATCH (c:Channel)-[:HAS_POST]->(p:Post) WHERE p.posted_at IS NOT NULL RETURN p.id", {}
    return [UUID(row[0]) for row in rows]
