"""One process owns an embedded index; another one stands by until it is free."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import ladybug
import pytest

from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.index.edge_tenant import FILE
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.index.vectors import Model
from tests.integration.index.keep_putting import MODEL, point

pytestmark = pytest.mark.integration

TENANT = uuid4()
PROGRAM = Path(__file__).with_name("keep_putting.py")


def content(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@contextmanager
def another_process(engine: str, folder: Path) -> Iterator[None]:
    """It holds the folder while we are in here, and is killed then."""
    command = [sys.executable, str(PROGRAM), engine, str(folder), str(TENANT), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
        finally:
            child.kill()


async def test_vectors_wait_for_another_process(folder: Path) -> None:
    vectors = EdgeVectors(folder)
    with another_process("edge", folder):
        for _ in range(2):
            with pytest.raises(Retry, match="Another process holds the vector index"):
                await vectors.current(TENANT)
    assert await vectors.current(TENANT) == MODEL  # it took over
    await vectors.close()


async def test_the_graph_waits_for_another_process(folder: Path) -> None:
    graph = LadybugGraph(folder, memory_mb=128)
    with another_process("ladybug", folder):
        for _ in range(2):
            with pytest.raises(Retry, match="Another process holds the graph"):
                await graph.counts(TENANT)
    assert (await graph.counts(TENANT))["Post"] > 0
    await graph.close()


async def test_asking_for_a_tenant_that_is_not_there_lets_go_of_nothing(folder: Path) -> None:
    """A worker asks for the marks of all tenants, again and again."""
    ours, other = EdgeVectors(folder), EdgeVectors(folder)
    await ours.open(TENANT, MODEL)
    assert await ours.mark(uuid4()) is None
    with pytest.raises(Retry, match="Another process holds the vector index"):
        await other.current(TENANT)
    await ours.close()
    await other.close()


async def test_two_in_one_process_do_not_share_either(folder: Path) -> None:
    first, second = LadybugGraph(folder, memory_mb=128), LadybugGraph(folder, memory_mb=128)
    await first.counts(TENANT)
    with pytest.raises(Retry, match="Another process"):
        await second.counts(TENANT)
    await first.close()
    await second.counts(TENANT)
    await second.close()


async def test_a_folder_that_cannot_be_made_is_for_a_person(folder: Path) -> None:
    (folder / "file").write_text("in the way")
    for index in (EdgeVectors(folder / "file" / "vectors"), LadybugGraph(folder / "file" / "graph")):
        with pytest.raises(Fatal, match="is not a folder"):
            await (index.current(TENANT) if isinstance(index, EdgeVectors) else index.counts(TENANT))
        await index.close()


async def test_unused_indexes_leave_nothing(folder: Path) -> None:
    for index in (EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph")):
        await index.close()
    assert content(folder) == []


async def test_vectors_survive_a_restart(folder: Path) -> None:
    first = EdgeVectors(folder)
    await first.open(TENANT, MODEL)
    await first.open(TENANT, Model("next", 3))
    await first.put(TENANT, MODEL, [point(TENANT, 1)])
    await first.close()
    second = EdgeVectors(folder)
    assert await second.current(TENANT) == MODEL
    assert await second.vector(TENANT, point(TENANT, 1).post_id) is not None
    assert [piece async for piece in second.ids(TENANT, Model("next", 3))] == []
    await second.close()


async def test_what_a_killed_step_left_is_deleted(folder: Path) -> None:
    first = EdgeVectors(folder)
    await first.open(TENANT, MODEL)
    await first.close()
    rest = folder / str(TENANT) / "0123456789abcdef"
    rest.mkdir()
    (rest / "half").write_text("a generation that was being made")
    second = EdgeVectors(folder)
    await second.open(TENANT, MODEL)
    assert not rest.exists()
    await second.close()


@pytest.mark.parametrize("content", ["", "[]", '{"generations": [{"model": "x"}]}', "{"])
async def test_a_damaged_list_of_generations_is_for_a_person(folder: Path, content: str) -> None:
    first = EdgeVectors(folder)
    await first.open(TENANT, MODEL)
    await first.close()
    (folder / str(TENANT) / FILE).write_text(content)
    second = EdgeVectors(folder)
    with pytest.raises(Fatal, match=r"move .* away"):
        await second.current(TENANT)
    await second.close()


async def test_damaged_vectors_are_for_a_person(folder: Path) -> None:
    first = EdgeVectors(folder)
    await first.open(TENANT, MODEL)
    await first.close()
    for segment in (folder / str(TENANT)).glob("*/segments/*/segment.json"):
        segment.write_text("{")
    second = EdgeVectors(folder)
    with pytest.raises(Fatal, match="cannot be opened"):
        await second.vector(TENANT, point(TENANT, 1).post_id)
    await second.close()


async def test_a_graph_of_another_version_is_for_a_person(folder: Path) -> None:
    graph = LadybugGraph(folder, memory_mb=128)
    await graph.counts(TENANT)
    await graph.close()
    database = ladybug.Database(folder / "graph", buffer_pool_size=128 * 2**20)
    ladybug.Connection(database).execute("MATCH (s:Schema) SET s.version = 99")
    database.close()
    graph = LadybugGraph(folder, memory_mb=128)
    with pytest.raises(Fatal, match="schema 99"):
        await graph.counts(TENANT)
    await graph.close()


async def test_a_damaged_graph_is_for_a_person(folder: Path) -> None:
    (folder / "graph").write_bytes(b"this is no database" * 1000)
    graph = LadybugGraph(folder, memory_mb=128)
    with pytest.raises(Fatal, match="cannot be opened"):
        await graph.counts(TENANT)
    await graph.close()
