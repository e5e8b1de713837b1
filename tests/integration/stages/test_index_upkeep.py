"""Indexes that were deleted, emptied, exchanged or split are noticed by their marks, and rebuilt from the tables."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from telegram_assistant.domain.events import Step
from telegram_assistant.errors import Retry
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.names import INDEXING
from telegram_assistant.stages import index_upkeep
from telegram_assistant.stages.index_upkeep import INDEXES, PASS, IndexesState, IndexUpkeep, PassState
from telegram_assistant.stages.indexing import Claim, Indexes
from telegram_assistant.stores.postgres.upkeep import Upkeep
from tests.integration.stages.desk import FOOTBALL, SYSTEM, WEATHER, Desk, post

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

POSTS = [post(number, f"{WEATHER} {number}") for number in range(1, 6)]
ALL = {one.id for one in POSTS}


@pytest_asyncio.fixture(loop_scope="session")
async def indexed(desk: Desk, indexes: Indexes, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Five posts that both indexes have."""
    monkeypatch.setattr(index_upkeep, "BATCH", 3)
    monkeypatch.setattr(index_upkeep, "EVERY", timedelta())
    await desk.save(*POSTS)
    await kept(desk, indexes).look()
    await indexes.put(await indexes.entries.read([one.id for one in POSTS]))
    for one in POSTS:
        step = Step(
            post_id=one.id,
            stage=INDEXING,
            outcome="done",
            note="",
            trace_id="t",
            content_hash=one.content_hash,
            duration_ms=1,
        )
        await desk.steps.record([step])
    return desk


def kept(desk: Desk, indexes: Indexes, place: str = "here") -> IndexUpkeep:
    return IndexUpkeep(Upkeep(desk.database), indexes, desk.stored_posts, desk.steps, place)


async def held(indexes: Indexes) -> tuple[set[object], set[object]]:
    """Posts with a vector, posts with a node."""
    ids = [one.id for one in POSTS]
    current = await indexes.vectors.current(SYSTEM)
    vectors = await indexes.vectors.hashes(SYSTEM, current, ids) if current else {}
    return set(vectors), set(await indexes.graph.known(SYSTEM, ids))


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(indexes: Indexes, folder: Path) -> AsyncIterator[Indexes]:
    """The same, with a folder of its own."""
    vectors = EdgeVectors(folder / "other" / "vectors")
    graph = LadybugGraph(folder / "other" / "graph", memory_mb=128)
    yield replace(indexes, vectors=vectors, graph=graph, claim=Claim())
    await vectors.close()
    await graph.close()


async def test_whole_indexes_are_left_alone(indexed: Desk, indexes: Indexes) -> None:
    upkeep = kept(indexed, indexes)
    for _ in range(4):
        assert not await upkeep.look()
    report = await upkeep.report()
    assert (report["status"], report["error"], report["restored"]) == ("ok", None, 0)
    assert upkeep.admitted.is_set()


@pytest.mark.parametrize("lost", ["vectors", "graph", "both"])
async def test_n14_indexes_deleted_under_a_running_process_are_rebuilt(
    indexed: Desk, indexes: Indexes, folder: Path, lost: str
) -> None:
    for name in ("vectors", "graph") if lost == "both" else (lost,):
        shutil.rmtree(folder / name)
    upkeep = kept(indexed, indexes)
    assert await upkeep.look(), "noticed"
    report = await upkeep.report()
    assert (report["status"], report["state"]) == ("degraded", "rebuilding")
    assert "vanished" in report["error"]
    assert "3 of 5 posts" in report["error"]
    for _ in range(5):
        await upkeep.look()
    assert await held(indexes) == (ALL, ALL)
    assert (await upkeep.report())["status"] == "ok"
    assert (folder / "vectors" / "lock").exists()


async def test_n14_indexes_deleted_while_it_was_stopped_are_rebuilt(indexed: Desk, elsewhere: Indexes) -> None:
    """A new process at the same place finds nothing of what PostgreSQL knows."""
    upkeep = kept(indexed, elsewhere)
    assert await upkeep.look()
    for _ in range(5):
        await upkeep.look()
    assert await held(elsewhere) == (ALL, ALL)


async def test_n14_an_exchanged_index_loses_what_does_not_belong_there(indexed: Desk, elsewhere: Indexes) -> None:
    """An older copy: it has a mark of its own, a deleted post and an older text."""
    await indexed.change("UPDATE posts SET text = :words WHERE message_id = 1", words=FOOTBALL)
    await elsewhere.put(await elsewhere.entries.read([POSTS[0].id, POSTS[1].id]))
    await elsewhere.vectors.set_mark(SYSTEM, "of another time")
    await indexed.change("UPDATE posts SET text = :words WHERE message_id = 1", words=POSTS[0].text)
    await indexed.change("UPDATE posts SET deleted_at = now() WHERE message_id = 2")
    upkeep = kept(indexed, elsewhere)
    await upkeep.look()
    assert "replaced" in (await upkeep.report())["error"]
    for _ in range(5):
        await upkeep.look()
    rest = ALL - {POSTS[1].id}
    assert await held(elsewhere) == (rest, rest)
    assert await elsewhere.restore([one.id for one in POSTS]) == 0, "and each is of the text that the post has"


async def test_n14_a_copy_of_an_hour_ago_is_known_by_its_mark(indexed: Desk, indexes: Indexes) -> None:
    """It was copied, the process started again and indexed more, and the copy lies where the index was."""
    earlier = await indexes.vectors.mark(SYSTEM)
    upkeep = kept(indexed, indexes)
    for _ in range(3):
        assert not await upkeep.look()
    now = await indexes.vectors.mark(SYSTEM)
    assert now is not None
    assert now == await indexes.graph.mark() != earlier
    assert not await upkeep.look()
    assert await indexes.vectors.mark(SYSTEM) == now, "not at every look"
    await indexes.vectors.remove(SYSTEM, [POSTS[2].id])
    await indexes.vectors.set_mark(SYSTEM, earlier or "")
    assert await upkeep.look()
    assert "vectors were replaced" in (await upkeep.report())["error"]
    for _ in range(5):
        await upkeep.look()
    assert await held(indexes) == (ALL, ALL)


async def test_an_end_while_the_marks_are_changed_is_no_exchange(indexed: Desk, indexes: Indexes) -> None:
    coming = (await Upkeep(indexed.database).state(INDEXES, IndexesState)).coming
    assert coming
    await indexes.vectors.set_mark(SYSTEM, coming)
    upkeep = kept(indexed, indexes)
    for _ in range(3):
        assert not await upkeep.look()
    assert await indexes.graph.mark() == await indexes.vectors.mark(SYSTEM)


async def test_n14_posts_that_an_index_lost_without_a_trace_come_back(indexed: Desk, indexes: Indexes) -> None:
    await indexes.vectors.remove(SYSTEM, [POSTS[2].id])
    await indexes.graph.remove(SYSTEM, [POSTS[4].id])
    upkeep = kept(indexed, indexes)
    for _ in range(3):
        assert not await upkeep.look(), "by turns"
    assert await held(indexes) == (ALL, ALL)


async def test_n30_a_second_folder_is_refused_while_the_first_is_in_use(indexed: Desk, elsewhere: Indexes) -> None:
    second = kept(indexed, elsewhere, "another machine")
    with pytest.raises(Retry, match="QDRANT_URL"):
        await second.look()
    assert not second.admitted.is_set()
    report = await second.report()
    assert (report["status"], report["state"]) == ("degraded", "refused")
    assert "kept at here" in report["error"]
    with pytest.raises(Retry, match="each hold a part"):
        await elsewhere.put(await elsewhere.entries.read([POSTS[0].id]))
    assert await held(elsewhere) == (set(), set())
    # The first is gone for good: the second begins with its own, and puts in all.
    await indexed.change("UPDATE upkeep SET state = jsonb_set(state, '{seen_at}', '\"2026-01-01T00:00:00Z\"')")
    for _ in range(5):
        await second.look()
    assert second.admitted.is_set()
    assert await held(elsewhere) == (ALL, ALL)


async def test_a_second_machine_with_the_same_folder_takes_over_at_once(indexed: Desk, indexes: Indexes) -> None:
    second = kept(indexed, indexes, "another machine")
    await second.look()
    assert second.admitted.is_set()
    assert (await Upkeep(indexed.database).state(PASS, PassState)).why == ""


async def test_after_a_clean_end_another_folder_need_not_wait(
    indexed: Desk, indexes: Indexes, elsewhere: Indexes
) -> None:
    first = kept(indexed, indexes)
    await first.look()
    await first.release()
    second = kept(indexed, elsewhere, "another machine")
    assert await second.look()
    assert second.admitted.is_set()
