"""What only a real Neo4j server can show: who is let in, what it is asked to keep, and being away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import neo4j
import pytest

from telegram_assistant.embedded.process import free_port
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.index.graph import PostNode
from telegram_assistant.index.neo4j_graph import Neo4jGraph
from tests.contract.neo4j_server import Address
from tests.contract.test_graph import rich

pytestmark = pytest.mark.integration


@pytest.fixture
async def graph(neo4j_address: Address) -> AsyncIterator[Neo4jGraph]:
    adapter = Neo4jGraph(neo4j_address.uri, neo4j_address.user, neo4j_address.password)
    yield adapter
    await adapter.close()


async def test_it_is_the_real_server(neo4j_address: Address) -> None:
    login = (neo4j_address.user, neo4j_address.password)
    async with neo4j.AsyncGraphDatabase.driver(neo4j_address.uri, auth=login) as driver:
        records, _, _ = await driver.execute_query("CALL dbms.components() YIELD name, versions, edition RETURN *")
    assert records[0]["versions"][0].startswith("5.")
    assert records[0]["edition"] == "community"


async def test_a_wrong_password_is_for_a_person(neo4j_address: Address, tenant: UUID) -> None:
    graph = Neo4jGraph(neo4j_address.uri, neo4j_address.user, "wrong")
    with pytest.raises(Fatal, match="password"):
        await graph.counts(tenant)
    await graph.close()


async def test_a_database_that_is_not_there_is_for_a_person(neo4j_address: Address, tenant: UUID) -> None:
    graph = Neo4jGraph(neo4j_address.uri, neo4j_address.user, neo4j_address.password, "nowhere")
    with pytest.raises(Fatal, match="DatabaseNotFound"):
        await graph.counts(tenant)
    await graph.close()


async def test_a_server_that_is_away_is_tried_again_later(tenant: UUID) -> None:
    graph = Neo4jGraph(f"bolt://127.0.0.1:{free_port()}", "neo4j", "x", patience=0.1)
    with pytest.raises(Retry, match="away"):
        await graph.counts(tenant)
    await graph.close()


async def test_keys_are_unique(graph: Neo4jGraph, neo4j_address: Address, tenant: UUID) -> None:
    await graph.counts(tenant)
    login = (neo4j_address.user, neo4j_address.password)
    async with neo4j.AsyncGraphDatabase.driver(neo4j_address.uri, auth=login) as driver:
        records, _, _ = await driver.execute_query("SHOW CONSTRAINTS YIELD type, labelsOrTypes, properties RETURN *")
    unique = {record["labelsOrTypes"][0] for record in records if record["properties"] == ["key"]}
    assert unique == set(await graph.counts(tenant))


async def test_workers_that_fight_over_the_same_posts(neo4j_address: Address, tenant: UUID) -> None:
    """Deadlocks, and nodes that vanish under another's hands: in the end each post is there once, and then gone."""
    workers = [Neo4jGraph(neo4j_address.uri, neo4j_address.user, neo4j_address.password) for _ in range(4)]
    posts = [rich(tenant, message_id=number + 1) for number in range(10)]

    async def work(graph: Neo4jGraph, dice: random.Random) -> None:
        for _ in range(6):
            some = [replace(one, tags=tuple(dice.sample("abcdef", 3))) for one in dice.sample(posts, 4)]
            is_removal = dice.random() < 0.4
            with suppress(Retry):  # as the bus would, but later
                await (graph.remove(tenant, [one.post_id for one in some]) if is_removal else graph.put(some))

    await asyncio.gather(*(work(graph, random.Random(seed)) for seed, graph in enumerate(workers)))
    await workers[0].put(posts)
    assert [await workers[1].node(tenant, one.post_id) for one in posts] == posts
    await workers[2].remove(tenant, [one.post_id for one in posts])
    assert set((await workers[3].counts(tenant)).values()) == {0}
    for graph in workers:
        await graph.close()


async def test_text_that_is_no_unicode_goes_to_the_dead_letters(graph: Neo4jGraph, tenant: UUID) -> None:
    post = PostNode(
        tenant_id=tenant,
        post_id=uuid4(),
        channel_id=1,
        channel_title="half a pair: \ud800",
        message_id=1,
        posted_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    with pytest.raises(Reject):
        await graph.put([post])
    assert await graph.node(tenant, post.post_id) is None
