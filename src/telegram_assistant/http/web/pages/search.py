"""`/search`: one box, what was found, and what narrows it; `/ask`: a question, and the answer with its posts; `/graph`:
channels, names and topics to walk through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.interests import Act, topics_of_query
from telegram_assistant.domain.query import filters_in, has_filter, with_filter, without_filter, without_filters
from telegram_assistant.domain.results import Facet, Facets, Hit, Offer, Results, Shown, Snippet, Sort
from telegram_assistant.domain.text import clean_text
from telegram_assistant.http.answers import LONGEST_OF_SEARCH
from telegram_assistant.http.dependencies import CallerDep, GraphWalkDep, ServicesDep, services_of
from telegram_assistant.http.web.charts import Ray, graph_picture
from telegram_assistant.http.web.page import fragment, language_of, link, page, zone_of
from telegram_assistant.http.web.rendering import highlighted
from telegram_assistant.i18n import load_texts
from telegram_assistant.language.taxonomy import topic_title
from telegram_assistant.search.graph import Node, NodeKind, Place
from telegram_assistant.search.snippets import LENGTH
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.reading import note
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.post_views import PostFiles, ShownFile

LONGEST_QUERY = 16_000
HITS = 15
PICTURES = 4
FACETS = {"channels": 8, "topics": 8, "tags": 12, "has": 9, "languages": 6}
# To be clicked; what is written with a word of the reader's language is chosen by it.
EXAMPLES = {
    "en": ("oil prices", "=rising", '"central bank"', "bank -credit", "oil OR gas", "has:photo", "after:7d", "lang:en"),
    "ru": (
        "цены на нефть",
        "=стали",
        '"центральный банк"',
        "банк -кредит",
        "нефть OR газ",
        "есть:фото",
        "после:7d",
        "язык:ru",
    ),
}
MEANINGS = ("words", "form", "phrase", "minus", "or", "photo", "after", "lang")
Asked = Annotated[str, Query(max_length=LONGEST_QUERY)]

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A story as a page shows it. `post_id`: of an album, the post that has the words."""

    hit: Hit
    post_id: UUID
    text: Markup
    pictures: list[ShownFile]
    more_pictures: int


@dataclass(frozen=True, slots=True)
class Chip:
    """A value that can be clicked: the query with it, or without it where it is in already."""

    title: str
    href: str
    on: bool = False
    posts: int | None = None
    more: bool = False  # there may be more posts than that


@router.get("/search")
async def search(
    request: Request, services: ServicesDep, caller: CallerDep, q: Asked = "", sort: Sort = Sort.BEST
) -> HTMLResponse:
    query = clean_text(q).strip()
    results = await _find(request, caller, query, sort)
    words = without_filters(query)
    if words and results.hits:
        about = topics_of_query(words.split(), [facet.value for facet in results.facets.topics])
        await note(services, caller, Act.SEARCH, about)
    language = language_of(request)
    return page(
        request,
        "search.html",
        caller=caller,
        q=query,
        sort=sort,
        results=results,
        has_words=bool(words),
        chips=_chips(query, sort),
        facets=_facets(query, sort, results.facets, language),
        offers=[_offer(offer, sort, language) for offer in results.offers],
        examples=list(zip(EXAMPLES[language], MEANINGS, strict=True)),
        **await _shown(services, caller, results),
    )


@router.get("/search/more")
async def more(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    cursor: Annotated[str, Query(max_length=LONGEST_OF_SEARCH)],
    *,
    q: Asked = "",
    sort: Sort = Sort.BEST,
) -> HTMLResponse:
    """Further ones, below those that are there."""
    query = clean_text(q).strip()
    results = await _find(request, caller, query, sort, cursor=cursor)
    shown = await _shown(services, caller, results)
    return fragment(request, "search_hits.html", caller=caller, q=query, sort=sort, results=results, **shown)


async def _find(request: Request, caller: Caller, query: str, sort: Sort, *, cursor: str | None = None) -> Results:
    return await services_of(request).search.search(
        caller.tenant_id, query, limit=HITS, cursor=cursor, sort=sort, zone=zone_of(request)
    )


async def _shown(services: Services, caller: Caller, results: Results) -> dict[str, Any]:
    files = await files_of(services, caller, results)
    return {"hits": [shown_hit(hit, files) for hit in results.hits]}


async def files_of(services: Services, caller: Caller, results: Results) -> dict[UUID, list[ShownFile]]:
    wanted = [post_id for hit in results.hits for post_id in hit.posts]
    return await PostFiles(services.database).of_posts(caller.tenant_id, wanted)


def shown_hit(hit: Hit, files: dict[UUID, list[ShownFile]], caption: Shown | None = None) -> ShownHit:
    """`caption`: the post of its album that has words, where the hit has none."""
    pictures = [file for post_id in hit.posts for file in files.get(post_id, ()) if file.is_picture]
    words = Snippet(caption.text[:LENGTH], cut_after=len(caption.text) > LENGTH) if caption else hit.snippet
    post = caption or hit.post
    return ShownHit(hit, post.post_id, highlighted(words), pictures[:PICTURES], max(0, len(pictures) - PICTURES))


def _chips(query: str, sort: Sort) -> list[Chip]:
    """The filters that are in the query, to be taken out."""
    written = dict.fromkeys(token for token, _, _ in filters_in(query))
    return [Chip(token, _address(without_filter(query, token), sort), on=True) for token in written]


def _offer(offer: Offer, sort: Sort, language: str) -> Chip:
    key, value = ("offer_without", offer.without) if offer.without else ("offer_spelling", offer.query)
    title = load_texts()(language, f"search.{key}", value=value)
    return Chip(title, _address(offer.query, sort), posts=offer.found, more=offer.counted.at_least)


def _facets(query: str, sort: Sort, facets: Facets, language: str) -> dict[str, list[Chip]]:
    return {
        field: [_facet(query, sort, field, facet, language) for facet in getattr(facets, field)[:most]]
        for field, most in FACETS.items()
        if getattr(facets, field)
    }


def _facet(query: str, sort: Sort, field: str, facet: Facet, language: str) -> Chip:
    value = facet.name or facet.value
    written = next(
        (token for token, name, found in filters_in(query) if (name, found.casefold()) == (field, value.casefold())),
        None,
    )
    on = has_filter(query, field, value)
    changed = without_filter(query, written) if on and written else with_filter(query, field, value)
    return Chip(_title(field, facet, language), _address(changed, sort), on, facet.posts)


def _title(field: str, facet: Facet, language: str) -> str:
    """As people say it, where we know how."""
    texts = load_texts()
    if field == "topics":
        return topic_title(facet.value, language)
    key = {"has": f"search.has_{facet.value}", "languages": f"search.lang_{facet.value}"}.get(field, "")
    return partial(texts, language)(key) if key in texts.keys else facet.title or facet.value


def _address(query: str, sort: Sort) -> str:
    return link("/search", q=query, sort="" if sort is Sort.BEST else sort)


QUESTIONS = ("example_1", "example_2", "example_3")


@router.get("/ask")
async def ask(request: Request, caller: CallerDep, q: Asked = "") -> HTMLResponse:
    """The page is there at once; its answer comes when it has been found."""
    return page(request, "ask.html", caller=caller, q=clean_text(q).strip(), examples=QUESTIONS)


@router.get("/ask/answer")
async def answer(request: Request, services: ServicesDep, caller: CallerDep, q: Asked = "") -> HTMLResponse:
    question = clean_text(q).strip()
    answered = await services.asking.ask(caller.tenant_id, question, zone=zone_of(request))
    return fragment(
        request, "ask_answer.html", caller=caller, q=question, answered=answered, said=without_filters(question)
    )


# So many of each kind are in the picture; all of them stand below it.
DRAWN = {NodeKind.CHANNEL: 4, NodeKind.ENTITY: 7, NodeKind.TOPIC: 3, NodeKind.TAG: 2}
TITLES = {NodeKind.CHANNEL: "channels", NodeKind.ENTITY: "entities", NodeKind.TOPIC: "topics", NodeKind.TAG: "tags"}
FIELDS = {NodeKind.TOPIC: "topics", NodeKind.TAG: "tags"}


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
    titled = {kind: [(one, _node_title(one, language)) for one in nodes] for kind, nodes in place.groups.items()}
    return page(
        request,
        "graph.html",
        caller=caller,
        place=place,
        title=_node_title(place.node, language),
        groups=[(TITLES[kind], titled[kind]) for kind in TITLES if kind in titled],
        sources=[(one, one.title) for one in place.sources],
        picture=_picture(place, language),
        search=search_address(place.node),
    )


def _node_title(node: Node, language: str) -> str:
    if node.kind is NodeKind.START:
        return load_texts()(language, "graph.start")
    return topic_title(node.key, language) if node.kind is NodeKind.TOPIC else node.title


def _picture(place: Place, language: str) -> Markup:
    title = _node_title(place.node, language)
    rays = [
        Ray(link("/graph", node=one.name), _node_title(one, language), one.posts, one.kind.value)
        for one in _drawn(place)
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
