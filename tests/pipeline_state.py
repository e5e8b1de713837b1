"""The state of the pipeline from outside: what is on its way, and what the indexes hold beside what the tables say.

The embedded indexes belong to a process while it runs, so they are read when it has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.bus.streams import lag_of
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.index.cypher import Steps
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.graph import PostNode
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.stages import STAGES, groups
from telegram_assistant.stages.index_entry import Entry, EntryReader
from telegram_assistant.stages.indexing import text_hash
from telegram_assistant.stores.postgres.enrichment import Enrichments, Pictures, StoredPosts
from telegram_assistant.stores.postgres.pages import Pages

TENANT = UUID(SYSTEM_TENANT)
AT_ONCE = 500


@dataclass
class Held:
    """Both indexes of the system's tenant, whole."""

    vectors: Counter[UUID] = field(default_factory=Counter)
    hashes: dict[UUID, str] = field(default_factory=dict)  # of the text that each vector was made of
    nodes: Counter[UUID] = field(default_factory=Counter)
    details: dict[UUID, PostNode | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """What is not as it should be. All of these must be empty."""

    without_vector: set[UUID]
    without_node: set[UUID]
    doubled: set[UUID]
    not_removed: set[UUID]  # in an index, although nothing should be
    other_text: set[UUID]  # the vector was made of words that the post no longer has
    other_node: dict[UUID, tuple[PostNode | None, PostNode]]  # what is there, what should be

    def __bool__(self) -> bool:
        return any(vars(self).values())


async def on_the_way(database: AsyncEngine, redis: Redis) -> dict[str, int]:
    """What is not at its end yet, by where it is. Empty: nothing moves any more."""
    found: Counter[str] = Counter()
    for event, stage in groups():
        lag = await lag_of(redis, event, stage)
        found[f"{stage} reads {event}"] = lag.entries + lag.pending
    for stage in STAGES:
        found[f"{stage} tries again later"] = await RetryQueue(redis, stage).size()
    async with database.connect() as connection:
        found["outbox"] = int(await connection.scalar(text("SELECT count(*) FROM outbox")) or 0)
        files = text("SELECT count(*) FROM post_media WHERE status = 'pending'")
        found["files"] = int(await connection.scalar(files) or 0)
    return dict(+found)


async def held(folder: Path, details: Sequence[UUID] = ()) -> Held:
    """Read both indexes; of the posts in `details` the whole nodes."""
    found = Held()
    vectors, graph = EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph")
    try:
        model = await vectors.current(TENANT)
        if model is not None:
            async for piece in vectors.ids(TENANT, model):
                found.vectors.update(piece)
                found.hashes |= await vectors.hashes(TENANT, model, piece)
        found.nodes.update(await graph.read(_post_ids))
        for post_id in details:
            found.details[post_id] = await graph.node(TENANT, post_id)
    finally:
        await vectors.close()
        await graph.close()
    return found


def _post_ids() -> Steps[list[UUID]]:
    """Posts that are only replied to have no date."""
    rows = yield "MATCH (c:Channel)-[:HAS_POST]->(p:Post) WHERE p.posted_at IS NOT NULL RETURN p.id", {}
    return [UUID(row[0]) for row in rows]


async def due(database: AsyncEngine) -> dict[UUID, Entry]:
    """Every post that is not deleted, as its entry in the indexes should be now."""
    async with database.connect() as connection:
        rows = await connection.execute(text("SELECT id FROM posts WHERE deleted_at IS NULL ORDER BY id"))
        ids = [row.id for row in rows]
    reader = EntryReader(StoredPosts(database), Enrichments(database), Pages(database), Pictures(database))
    entries: dict[UUID, Entry] = {}
    for start in range(0, len(ids), AT_ONCE):
        entries |= await reader.read(ids[start : start + AT_ONCE])
    return {post_id: entry for post_id, entry in entries.items() if not entry.deleted}


def difference(found: Held, wanted: dict[UUID, Entry]) -> Difference:
    both = found.vectors + found.nodes
    shared = found.details.keys() & wanted.keys()
    return Difference(
        without_vector=wanted.keys() - found.vectors.keys(),
        without_node=wanted.keys() - found.nodes.keys(),
        doubled={post_id for held in (found.vectors, found.nodes) for post_id, count in held.items() if count > 1},
        not_removed=both.keys() - wanted.keys(),
        other_text={
            post_id
            for post_id in found.hashes.keys() & wanted.keys()
            if found.hashes[post_id] != text_hash(wanted[post_id].text)
        },
        other_node={
            post_id: (found.details[post_id], wanted[post_id].node())
            for post_id in shared
            if found.details[post_id] != wanted[post_id].node()
        },
    )


async def used_since(database: AsyncEngine, tenant_id: UUID, moment: datetime) -> list[Any]:
    """What a tenant used of each model: ability, provider, model, calls, tokens, cost, latency_ms."""
    statement = text(
        "SELECT ability, provider, model, sum(calls)::bigint AS calls, sum(tokens_in + tokens_out)::bigint AS tokens,"
        " sum(cost) AS cost, sum(latency_ms) AS latency_ms FROM model_usage WHERE tenant_id = :tenant AND day >= :since"
        " GROUP BY ability, provider, model ORDER BY ability, provider, model"
    )
    async with database.connect() as connection:
        return list(await connection.execute(statement, {"tenant": tenant_id, "since": moment}))
