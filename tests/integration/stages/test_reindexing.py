"""`tga reindex`: the indexes are made anew from the tables alone."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from telegram_assistant.domain.post import post_id
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stages.reindexing import Reindexing
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import CHANNEL, FOOTBALL, SYSTEM, WEATHER, Desk, post

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]


async def everything(indexes: Indexes) -> set[UUID]:
    return {id_ async for ids in indexes.vectors.ids(SYSTEM, indexes.model) for id_ in ids}


async def test_lost_indexes_come_back(desk: Desk, indexes: Indexes) -> None:
    await desk.save(post(1, WEATHER), post(2, FOOTBALL))
    ids = {post_id(CHANNEL, 1), post_id(CHANNEL, 2)}
    told: list[int] = []
    reindexing = Reindexing(indexes, desk.stored_posts)
    assert await reindexing.count() == 2
    assert await reindexing.run(told.append) == 2
    assert sum(told) == 2
    assert await everything(indexes) == ids
    assert (await indexes.graph.counts(SYSTEM))["Post"] == 2
    query = (await indexes.embedder.embed(["кто выиграл кубок"])).vectors[0]
    best = (await indexes.vectors.search(SYSTEM, query, limit=1))[0]

    await indexes.vectors.drop(SYSTEM)
    await indexes.graph.drop(SYSTEM)
    assert await reindexing.run() == 2
    found = (await indexes.vectors.search(SYSTEM, query, limit=1))[0]
    assert found.post_id == best.post_id
    assert found.score == pytest.approx(best.score, abs=1e-5)
    assert (await indexes.graph.counts(SYSTEM))["Post"] == 2


@pytest.mark.parametrize("keep", [True, False])
async def test_an_index_that_is_made_anew_keeps_its_mark(desk: Desk, indexes: Indexes, *, keep: bool) -> None:
    """On purpose: that is no loss, and nobody need be told."""
    await desk.save(post(1, WEATHER))
    await indexes.vectors.open(SYSTEM, indexes.model)
    await indexes.vectors.set_mark(SYSTEM, "ours")
    await Reindexing(indexes, desk.stored_posts).run(keep=keep)
    assert await indexes.vectors.mark(SYSTEM) == "ours"


async def test_what_the_tables_no_longer_have_goes_out(desk: Desk, indexes: Indexes) -> None:
    await desk.save(post(1, WEATHER))
    await Reindexing(indexes, desk.stored_posts).run()
    stray = Point(
        post_id=uuid4(), vector=[1.0] * indexes.model.size, text_hash="", channel_id=1, posted_at=utc_now(), topics=()
    )
    await indexes.vectors.put(SYSTEM, indexes.model, [stray])
    await Reindexing(indexes, desk.stored_posts).run()
    assert await everything(indexes) == {post_id(CHANNEL, 1)}


@pytest.mark.parametrize("keep", [True, False])
async def test_vectors_of_another_model_are_replaced(desk: Desk, indexes: Indexes, *, keep: bool) -> None:
    await desk.save(post(1, WEATHER))
    await indexes.vectors.open(SYSTEM, Model("of yesterday", 4))
    await Reindexing(indexes, desk.stored_posts).run(keep=keep)
    assert await indexes.vectors.current(SYSTEM) == indexes.model
    assert await everything(indexes) == {post_id(CHANNEL, 1)}


async def test_an_index_that_is_in_use_is_left_alone(indexes: Indexes, folder: Path) -> None:
    await indexes.hold()
    another = EdgeVectors(folder / "vectors")
    with pytest.raises(Exception, match="Another process holds the vector index"):
        await another.current(SYSTEM)
    await another.close()
