"""GraphWalk through the graph: neighbours with counts, of the posts that one sees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI

from telegram_assistant.domain.models import Entity, EntityKind
from telegram_assistant.index.graph import PostNode
from telegram_assistant.services.services import Services
from tests.integration.search.archive import NEWS, POSTED, SPORT, SYSTEM

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
GRAPH = "/api/v1/graph"
PRIVATE = 300
MOSCOW, SPARTAK = Entity(EntityKind.PLACE, "Москва"), Entity(EntityKind.ORGANISATION, "Спартак")


@pytest.fixture
async def add(town: Town, services: Services) -> Any:
    """A post in the tables and in the graph of its owner."""

    async def add(
        number: int,
        *,
        channel: int = NEWS,
        entities: Sequence[Entity] = (),
        topics: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> UUID:
        owner = town.other.tenant_id if channel == PRIVATE else SYSTEM
        post: UUID = await town.archive.post(number, f"Пост {number}", channel=channel, topics=tuple(topics))
        found = {
            "topics": topics,
            "tags": tags,
            "entities": [{"kind": one.kind.value, "name": one.name} for one in entities],
        }
        await town.archive.run(
            "INSERT INTO post_enrichment (post_id, kind, content_hash, data, provider)"
            " VALUES (:post, 'tags', '', CAST(:data AS jsonb), 'local')",
            post=post,
            data=json.dumps(found),
        )
        node = PostNode(
            tenant_id=owner,
            post_id=post,
            channel_id=channel,
            channel_title="",
            message_id=number,
            posted_at=POSTED,
            entities=tuple(entities),
            topics=tuple(topics),
            tags=tuple(tags),
        )
        assert services.graph is not None
        await services.graph.put([node])
        return post

    return add


def brief(nodes: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(node["node"], node["posts"]) for node in nodes]


async def test_one_walks_from_node_to_node(town: Town, client_of: ClientOf, add: Any) -> None:
    await add(1, entities=[MOSCOW, SPARTAK], topics=["sport"], tags=["футбол"])
    await add(2, entities=[MOSCOW], topics=["weather"])
    last = await add(3, channel=SPORT, entities=[SPARTAK, MOSCOW], topics=["sport"], tags=["футбол"])
    client = client_of(town.member)
    start = (await client.get(GRAPH)).json()
    assert brief(start["channels"]) == [(f"channel:{NEWS}", 2), (f"channel:{SPORT}", 1)]
    assert brief(start["entities"]) == [("entity:Москва", 3), ("entity:Спартак", 2)]
    spartak = (await client.get(GRAPH, params={"node": "entity:Спартак"})).json()
    assert (spartak["node"]["posts"], spartak["node"]["sort"], spartak["more"]) == (2, "organisation", False)
    assert brief(spartak["channels"]) == [(f"channel:{NEWS}", 1), (f"channel:{SPORT}", 1)]
    assert brief(spartak["entities"]) == [("entity:Москва", 2)], "not itself"
    assert brief(spartak["topics"]) == [("topic:sport", 2)]
    assert spartak["examples"][0]["id"] == str(last)
    sport = (await client.get(GRAPH, params={"node": "topic:sport"})).json()
    assert brief(sport["tags"]) == [("tag:футбол", 2)]
    tag = (await client.get(GRAPH, params={"node": "tag:футбол"})).json()
    assert tag["node"]["posts"] == 2
    channel = (await client.get(GRAPH, params={"node": f"channel:{SPORT}"})).json()
    assert (channel["node"]["title"], brief(channel["channels"])) == ("Sport", [])
    post = (await client.get(GRAPH, params={"node": f"post:{last}"})).json()
    assert post["node"]["title"] == "Пост 3"
    assert brief(post["channels"]) == [(f"channel:{SPORT}", 1)]
    assert len(post["examples"]) == 2


async def test_only_what_one_sees_is_counted(town: Town, client_of: ClientOf, add: Any) -> None:
    await add(1, entities=[MOSCOW])
    hidden = await add(2, channel=PRIVATE, entities=[MOSCOW, SPARTAK], topics=["secret"])
    await town.archive.channel(9, "of_nobody")
    await add(3, channel=9, entities=[MOSCOW, SPARTAK])
    mine = (await client_of(town.member).get(GRAPH, params={"node": "entity:Москва"})).json()
    assert (mine["node"]["posts"], mine["entities"]) == (1, [])
    theirs = (await client_of(town.other).get(GRAPH, params={"node": "entity:Москва"})).json()
    assert (theirs["node"]["posts"], brief(theirs["entities"])) == (1, [("entity:Спартак", 1)])
    for node in ("entity:Спартак", "topic:secret", f"channel:{PRIVATE}", "channel:9", f"post:{hidden}"):
        assert (await client_of(town.member).get(GRAPH, params={"node": node})).status_code == 404, node
    assert (await client_of().get(GRAPH)).status_code == 401


async def test_deleted_posts_do_not_count(town: Town, client_of: ClientOf, add: Any) -> None:
    post = await add(1, entities=[MOSCOW])
    await town.archive.run("UPDATE posts SET deleted_at = now() WHERE id = :id", id=post)
    client = client_of(town.member)
    assert (await client.get(GRAPH, params={"node": "entity:Москва"})).status_code == 404
    assert (await client.get(GRAPH, params={"node": f"post:{post}"})).status_code == 404


NO_NODES: list[str] = [
    "nothing",
    "channel:",
    "channel:x",
    "channel:-1",
    "channel:" + "9" * 40,
    "channel:٣",
    "post:1",
    "entity:",
    "entity:a\0b",
    "start:",
    "entity:" + "x" * 350,
    "x" * 5_000,
]


async def test_what_is_no_node_is_told(town: Town, client_of: ClientOf, subtests: pytest.Subtests) -> None:
    for node in NO_NODES:
        with subtests.test(node=node):
            answer = await client_of(town.member).get(GRAPH, params={"node": node})
            assert answer.status_code == 422
            assert answer.json()["detail"]


@pytest.mark.parametrize("node", ["entity:'}) DETACH DELETE n //", "entity:<script>", "topic:'; DROP TABLE posts"])
async def test_odd_names_find_nothing(town: Town, client_of: ClientOf, node: str) -> None:
    assert (await client_of(town.member).get(GRAPH, params={"node": node})).status_code == 404


async def test_without_the_graph_channels_can_still_be_seen(
    town: Town, client_of: ClientOf, add: Any, app: FastAPI, services: Services
) -> None:
    await add(1, entities=[MOSCOW])
    app.state.services = replace(services, graph=None)
    client = client_of(town.member)
    assert brief((await client.get(GRAPH)).json()["entities"]) == [("entity:Москва", 1)]
    answer = await client.get(GRAPH, params={"node": "entity:Москва"})
    assert answer.status_code == 503
    assert "NEO4J_URL" in answer.json()["detail"]
