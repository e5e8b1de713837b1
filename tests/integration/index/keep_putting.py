"""Puts posts into an index until it is killed, and says after each batch how many are acknowledged.

keep_putting.py ENGINE FOLDER TENANT START
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid5

from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.graph import PostNode
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.index.vectors import Model, Point

BATCH = 20
MODEL = Model("test", 16)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def post_id(tenant: UUID, number: int) -> UUID:
    return uuid5(tenant, str(number))


def vector_of(number: int) -> list[float]:
    return [1.0 + (number >> bit & 1) for bit in range(16)]


def point(tenant: UUID, number: int) -> Point:
    return Point(
        post_id=post_id(tenant, number),
        vector=vector_of(number),
        text_hash=str(number),
        channel_id=1,
        posted_at=NOON,
        tags=(f"tag {number % 7}",),
    )


def node(tenant: UUID, number: int) -> PostNode:
    return PostNode(
        tenant_id=tenant,
        post_id=post_id(tenant, number),
        channel_id=1,
        channel_title="Channel",
        message_id=number + 1,
        posted_at=NOON,
        tags=(f"tag {number % 7}", f"rare {number}"),
    )


async def main(engine: str, folder: Path, tenant: UUID, start: int) -> None:
    vectors, graph = EdgeVectors(folder), LadybugGraph(folder, memory_mb=128)
    if engine == "edge":
        await vectors.open(tenant, MODEL)
    while True:
        numbers = range(start, start + BATCH)
        if engine == "edge":
            await vectors.put(tenant, MODEL, [point(tenant, number) for number in numbers])
        else:
            await graph.put([node(tenant, number) for number in numbers])
        start += BATCH
        print(start, flush=True)  # noqa: T201 - it is read by the test


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), UUID(sys.argv[3]), int(sys.argv[4])))
