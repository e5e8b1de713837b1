"""The graph, to walk through: a node, and what its posts lead to."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from telegram_assistant.http.answers import FromValue, example
from telegram_assistant.http.api.search import FoundPostOut
from telegram_assistant.http.dependencies import CallerDep, GraphWalkDep
from telegram_assistant.search.graph import Node, NodeKind
from telegram_assistant.services.problems import not_found

router = APIRouter(prefix="/graph", tags=["graph"])


class NodeOut(FromValue):
    """A node of the graph."""

    node: str = Field(
        validation_alias="name", description="Send it back as `node` to go there.", examples=["entity:Москва"]
    )
    kind: NodeKind
    title: str = Field(examples=["Москва"])
    posts: int = Field(description="Of the posts of the node in the middle.")
    sort: str = Field(description="Of an entity: person, organisation or place.")


class GraphOut(BaseModel):
    """Where you stand, and where you can go."""

    model_config = example(
        node={"node": "entity:Москва", "kind": "entity", "title": "Москва", "posts": 12, "sort": "place"},
        channels=[{"node": "channel:100", "kind": "channel", "title": "Daily News", "posts": 9, "sort": ""}],
        entities=[],
        topics=[],
        tags=[],
        sources=[],
        examples=[],
        more=False,
    )

    node: NodeOut
    channels: list[NodeOut] = Field(description="Who writes about it.")
    entities: list[NodeOut] = Field(description="Who and what is named with it.")
    topics: list[NodeOut]
    tags: list[NodeOut]
    sources: list[NodeOut] = Field(description="Channels of yours that its posts were forwarded from.")
    examples: list[FoundPostOut] = Field(description="The newest posts; of a post, those next to it.")
    more: bool = Field(description="Only the newest thousand posts were looked at.")


@router.get("", operation_id="walk_graph", summary="A node of the graph and its neighbours")
async def walk_graph(
    walking: GraphWalkDep,
    caller: CallerDep,
    node: Annotated[
        str,
        Query(
            max_length=400,
            description="`channel:ID`, `entity:NAME`, `topic:NAME`, `tag:NAME` or `post:ID`; empty: where to begin.",
            examples=["entity:Москва"],
        ),
    ] = "",
) -> GraphOut:
    """At most forty neighbours, each with the number of posts that lead there. Counted over what you see."""
    place = await walking.around(caller.tenant_id, node)
    if place is None:
        raise not_found("node")
    return GraphOut(
        node=NodeOut.model_validate(place.node),
        channels=_nodes(place.groups.get(NodeKind.CHANNEL, ())),
        entities=_nodes(place.groups.get(NodeKind.ENTITY, ())),
        topics=_nodes(place.groups.get(NodeKind.TOPIC, ())),
        tags=_nodes(place.groups.get(NodeKind.TAG, ())),
        sources=_nodes(place.sources),
        examples=[FoundPostOut.model_validate(post) for post in place.examples],
        more=place.more,
    )


def _nodes(found: tuple[Node, ...]) -> list[NodeOut]:
    return [NodeOut.model_validate(node) for node in found]
