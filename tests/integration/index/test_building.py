"""The search graph of Qdrant Edge is built beside the work; filters do not cost what is found (PLATFORM 3)."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid4

import numpy as np
import numpy.typing as npt
import pytest
from structlog.testing import capture_logs

from telegram_assistant.index.edge_shard import EdgeShard
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point, Where

pytestmark = pytest.mark.integration

TENANT = uuid4()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODEL = Model("test", 32)
CLUSTERS = 8
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@pytest.fixture
async def vectors(folder: Path) -> AsyncIterator[EdgeVectors]:
    """Builds soon, and uses the graph for small matches too: at the usual limits they are compared one by one."""
    adapter = EdgeVectors(folder, build_after=1000, full_scan_kb=20)
    await adapter.open(TENANT, MODEL)
    yield adapter
    await adapter.close()


def clustered(count: int, seed: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Directions around a few centres, as posts about the same things are; and which centre each one has."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(CLUSTERS, MODEL.size))
    cluster = rng.integers(0, CLUSTERS, count)
    directions = centres[cluster] + rng.normal(size=(count, MODEL.size))
    return (directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32), cluster


def points_of(directions: Floats, cluster: npt.NDArray[np.int64]) -> list[Point]:
    return [
        Point(
            post_id=UUID(int=number + 1),
            vector=directions[number].tolist(),
            text_hash=str(number),
            channel_id=int(cluster[number]),  # a channel is about few things: what makes filtered search hard
            posted_at=NOON + timedelta(minutes=number),
            language="ru" if number % 4 else "en",
            tags=(f"tag {cluster[number] % 3}",),
            has=("photo",) if number % 5 == 0 else (),
        )
        for number in range(len(directions))
    ]


async def recall(vectors: EdgeVectors, directions: Floats, mask: Mask, where: Where | None) -> float:
    """The share of the ten best that a search finds, over thirty questions from all clusters."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(30):
        question = directions[rng.integers(len(directions))] + 0.1 * rng.normal(size=MODEL.size).astype(np.float32)
        scores = np.where(mask, directions @ question, -9.0)
        best = {int(number) + 1 for number in np.argsort(-scores)[:10]}
        answer = await vectors.search(TENANT, question.tolist(), limit=10, where=where)
        found += len(best & {one.post_id.int for one in answer})
    return found / 300


async def test_filtered_searches_find_what_there_is(vectors: EdgeVectors, folder: Path) -> None:
    directions, cluster = clustered(6000, seed=5)
    await vectors.put(TENANT, MODEL, points_of(directions, cluster))
    await vectors.settle()
    number = np.arange(6000)
    cases: dict[str, tuple[Where | None, Mask]] = {
        "everything": (None, number >= 0),
        "a channel": (Where(channels=[3]), cluster == 3),
        "a tag of three clusters": (Where(tags=["tag 1"]), cluster % 3 == 1),
        "a language": (Where(languages=["en"]), number % 4 == 0),
        "a time": (Where(since=NOON + timedelta(minutes=4000)), number >= 4000),
        "not two channels": (Where(not_channels=[1, 2]), ~np.isin(cluster, [1, 2])),
        "three at once": (
            Where(channels=[3, 4], languages=["en"], has=["photo"]),
            np.isin(cluster, [3, 4]) & (number % 20 == 0),
        ),
    }
    measured = {name: await recall(vectors, directions, mask, where) for name, (where, mask) in cases.items()}
    assert {name: share for name, share in measured.items() if share < 0.95} == {}
    assert built(folder) == 6000


def built(folder: Path) -> int:
    """Points that the graph knows. A shard has one owner, so a copy of it is asked."""
    [shard] = shards(folder)
    with TemporaryDirectory() as place:
        copy = EdgeShard.load(shutil.copytree(shard, Path(place) / "copy"))
        found = len(copy) - copy.unindexed()
        copy.close()
    return found


async def test_what_changes_meanwhile_is_not_lost(vectors: EdgeVectors, folder: Path) -> None:
    points = points_of(*clustered(1100, seed=6))
    await vectors.put(TENANT, MODEL, points[:1000])  # starts the build
    await vectors.put(TENANT, MODEL, points[1000:])
    await vectors.put(TENANT, MODEL, [replace(points[0], vector=points[1].vector, text_hash="new")])
    await vectors.update(TENANT, MODEL, [replace(points[1], language="fr")])
    await vectors.remove(TENANT, [points[2].post_id])
    await vectors.settle()
    assert built(folder) > 0
    stored = {one async for piece in vectors.ids(TENANT, MODEL) for one in piece}
    assert stored == {one.post_id for one in points} - {points[2].post_id}
    assert await vectors.hashes(TENANT, MODEL, [points[0].post_id]) == {points[0].post_id: "new"}
    assert await vectors.vector(TENANT, points[0].post_id) == pytest.approx(list(points[1].vector), abs=1e-5)
    french = await vectors.search(TENANT, points[9].vector, limit=9, where=Where(languages=["fr"]))
    assert [one.post_id for one in french] == [points[1].post_id]
    assert len(shards(folder)) == 1


def shards(folder: Path) -> list[Path]:
    return [path for path in (folder / str(TENANT)).iterdir() if path.is_dir()]


async def test_a_stop_in_the_middle_of_a_build(folder: Path) -> None:
    points = points_of(*clustered(1000, seed=7))
    first = EdgeVectors(folder, build_after=1000, full_scan_kb=20)
    await first.open(TENANT, MODEL)
    await first.put(TENANT, MODEL, points)
    assert len(shards(folder)) == 2
    await first.close()
    assert len(shards(folder)) == 1
    second = EdgeVectors(folder)
    assert len({one async for piece in second.ids(TENANT, MODEL) for one in piece}) == 1000
    await second.close()


@pytest.mark.parametrize("damage, said", [("", "was not built"), ("segments", "cannot be used")])
async def test_a_build_that_fails_leaves_everything_as_it_was(
    vectors: EdgeVectors, folder: Path, damage: str, said: str
) -> None:
    before = shards(folder)
    points = points_of(*clustered(2000, seed=8))
    await vectors.put(TENANT, MODEL, points[:900])
    with capture_logs() as logs:
        await vectors.put(TENANT, MODEL, points[900:1100])
        (copy,) = set(shards(folder)) - set(before)
        shutil.rmtree(copy / damage)
        await vectors.settle()
    assert [said in entry["event"] for entry in logs] == [True]
    await vectors.put(TENANT, MODEL, points[1100:1200])  # and it is not tried again at once
    assert shards(folder) == before
    assert len(await vectors.search(TENANT, [1.0] * 32, limit=2000)) == 1200


async def test_a_tenant_may_leave_in_the_middle_of_a_build(vectors: EdgeVectors, folder: Path) -> None:
    await vectors.put(TENANT, MODEL, points_of(*clustered(1000, seed=10)))
    await vectors.drop(TENANT)
    await vectors.settle()
    assert await vectors.current(TENANT) is None
    assert not (folder / str(TENANT)).exists()
