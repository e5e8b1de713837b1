"""`/graph`: channels, names and topics to walk through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from telegram_assistant.domain.query import with_filter
from telegram_assistant.http.dependencies import CallerDep, GraphWalkDep
from telegram_assistant.http.web.charts import Ray, graph_picture
from telegram_assistant.http.web.page import language_of, link, page
from telegram_assistant.i18n import load_texts
from telegram_assistant.language.taxonomy import topic_title
from telegram_assistant.search.graph import Node, NodeKind, Place
from telegram_assistant.services.problems import not_found

# So many of each kind are in the picture; all of them stand below it.
DRAWN = {NodeKind.CHANNEL: 4, NodeKind.ENTITY: 7, NodeKind.TOPIC: 3, NodeKind.TAG: 2}
TITLES = {NodeKind.CHANNEL: "channels", NodeKind.ENTITY: "entities", NodeKind.TOPIC: "topics", NodeKind.TAG: "tags"}
FIELDS = {NodeKind.TOPIC: "topics", NodeKind.TAG: "tags"}

router = APIRouter(include_in_schema=False)


@router.get("/graph")
async def graph(
    request: Request,
    walking: GraphWalkDep,
    caller: CallerDep,
    node: Annotated[str, Query(max_length=400)] = "",
) -> HTMLResponse:
    place = await walking.around(caller.tenant_id, node)
    if place is None:
        raise not_found("node")
    language = language_of(request)
    titled = {kind: [(one, _title(one, language)) for one in nodes] for kind, nodes in place.groups.items()}
    return page(
        request,
        "graph.html",
        caller=caller,
        place=place,
        title=_title(place.node, language),
        groups=[(TITLES[kind], titled[kind]) for kind in TITLES if kind in titled],
        sources=[(one, one.title) for one in place.sources],
        picture=_picture(place, language),
        search=search_address(place.node),
    )


def _title(node: Node, language: str) -> str:
    if node.kind is NodeKind.START:
        return load_texts()(language, "graph.start")
    return topic_title(node.key, language) if node.kind is NodeKind.TOPIC else node.title


def _picture(place: Place, language: str) -> Markup:
    title = _title(place.node, language)
    rays = [
        Ray(link("/graph", node=one.name), _title(one, language), one.posts, one.kind.value) for one in _drawn(place)
    ]
    label = load_texts()(language, "graph.picture", title=title)
    return graph_picture(title, place.node.kind.value, rays, label) if rays else Markup()


def _drawn(place: Place) -> Sequence[Node]:
    """Of each kind the busiest, kind beside kind."""
    return [one for kind, most in DRAWN.items() for one in place.groups.get(kind, ())[:most]]


def search_address(node: Node) -> str:
    """Where the posts of a node are found; empty for what is no query."""
    match node.kind:
        case NodeKind.CHANNEL:
            return link("/search", q=with_filter("", "channels", node.key))
        case NodeKind.ENTITY:
            return link("/search", q='"{}"'.format(node.key.replace('"', " ")))
        case NodeKind.TOPIC | NodeKind.TAG:
            return link("/search", q=with_filter("", FIELDS[node.kind], node.key))
        case _:
            return ""
