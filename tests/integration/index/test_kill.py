"""G3: a process that is killed in the middle of its puts loses nothing that it had acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from tests.integration.index.keep_putting import MODEL, node, point, post_id

pytestmark = pytest.mark.integration

ROUNDS = 4
PROGRAM = Path(__file__).with_name("keep_putting.py")


def put_until_killed(engine: str, folder: Path, tenant: UUID, start: int, batches: int) -> int:
    """Kill it while it works on the batch after those; returns how many posts it had acknowledged."""
    command = [sys.executable, str(PROGRAM), engine, str(folder), str(tenant), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(batches):
            acknowledged = int(child.stdout.readline())
        child.kill()
        return max([acknowledged, *map(int, child.stdout.read().split())])


async def test_vectors_survive_kills(folder: Path) -> None:
    tenant, dice, acknowledged = uuid4(), random.Random(3), 0
    for _ in range(ROUNDS):
        acknowledged = put_until_killed("edge", folder, tenant, acknowledged, dice.randrange(5, 60))
        vectors = EdgeVectors(folder)
        stored = {one async for piece in vectors.ids(tenant, MODEL) for one in piece}
        wanted = {post_id(tenant, number) for number in range(acknowledged)}
        assert wanted - stored == set()
        last = point(tenant, acknowledged - 1)
        assert await vectors.hashes(tenant, MODEL, [last.post_id]) == {last.post_id: last.text_hash}
        found = await vectors.search(tenant, last.vector, limit=1)
        assert found[0].score == pytest.approx(1.0, abs=1e-5)
        await vectors.close()


async def test_the_graph_survives_kills(folder: Path) -> None:
    tenant, dice, acknowledged = uuid4(), random.Random(4), 0
    for _ in range(ROUNDS):
        acknowledged = put_until_killed("ladybug", folder, tenant, acknowledged, dice.randrange(2, 15))
        graph = LadybugGraph(folder, memory_mb=128)
        counts = await graph.counts(tenant)
        assert counts["Post"] >= acknowledged
        assert counts["Tag"] == counts["Post"] + 7  # a batch is there with all its relations, or not at all
        for number in {0, acknowledged // 2, acknowledged - 1}:
            one = node(tenant, number)
            assert await graph.node(tenant, one.post_id) == one
        await graph.close()
