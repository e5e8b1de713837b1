"""Ways to posts: search by words and by meaning, an answer from them with its sources, the graph to walk through."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Annotated
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, Field

from telegram_assistant.domain.query import Note
from telegram_assistant.domain.results import Facet, Origin, Sort
from telegram_assistant.http.answers import LONGEST_OF_SEARCH, FromValue, example, rounded
from telegram_assistant.http.dependencies import CallerDep, GraphWalkDep, ServicesDep
from telegram_assistant.search.ask import Said
from telegram_assistant.search.graph import Node, NodeKind
from telegram_assistant.search.service import MOST_HITS
from telegram_assistant.services.problems import Problem, not_found

POST = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
LONGEST_QUESTION = 16_000


class NoteOut(BaseModel):
    """A remark on a query."""

    kind: str = Field(description="Which remark it is, for programs.", examples=["no_such_channel"])
    value: str = Field(description="What it is about.", examples=["@durov"])
    text: str = Field(description="The remark, in English.", examples=["you have no channel @durov"])


def _remark(note: Note) -> NoteOut:
    return NoteOut(kind=note.trouble.name.lower(), value=note.value, text=str(note))


Remark = Annotated[NoteOut, BeforeValidator(_remark)]


class SnippetOut(FromValue):
    """The piece of a post that shows why it was found. Plain text, never markup."""

    text: str
    spans: list[tuple[int, int]] = Field(description="Where the words are: first and after the last, in characters.")
    origin: Origin = Field(description="The post itself, a picture of it, or a page that it links to.")
    cut_before: bool
    cut_after: bool


class TellerOut(FromValue):
    """Who else tells a story; the first source comes first."""

    id: UUID = Field(validation_alias="post_id")
    url: str = Field(examples=["https://t.me/durov/142"])
    channel_id: int
    channel: str = Field(validation_alias="channel_title")
    posted_at: datetime


class FoundPostOut(TellerOut):
    """A post, in short."""

    edited: bool = False
    deleted: bool = False


class HitOut(FromValue):
    """A story: the post that fits best, and all channels that tell it."""

    model_config = example(
        post={
            "id": POST,
            "url": "https://t.me/durov/142",
            "channel_id": 1006503122,
            "channel": "Durov's Channel",
            "posted_at": "2026-05-02T09:30:00Z",
            "edited": False,
            "deleted": False,
        },
        snippet={
            "text": "Цены на нефть выросли",
            "spans": [[8, 13]],
            "origin": "text",
            "cut_before": False,
            "cut_after": False,
        },
        score=6.4,
        by_words=True,
        by_meaning=True,
        album=[],
        pictures=[],
        tellers=[],
    )

    post: FoundPostOut
    snippet: SnippetOut
    score: Annotated[float, rounded(4)] = Field(description="To compare within one search only.")
    by_words: bool
    by_meaning: bool
    album: list[UUID] = Field(description="All posts of its album, in their order.")
    pictures: list[str] = Field(description="SHA-256 of its photos: see /media.")
    tellers: list[TellerOut] = Field(description="All channels that tell it, this one too; empty: no other does.")


class FacetOut(BaseModel):
    """A value that narrows the search, and how many stories the search with it finds."""

    value: str = Field(examples=["@durov"])
    posts: int = Field(description="Stories. The search with this filter finds as many, or more if `at_least`.")
    title: str = Field(description="Of a channel.")


def _as_written(facet: Facet) -> FacetOut:
    return FacetOut(value=facet.name or facet.value, posts=facet.posts, title=facet.title)


Narrowing = Annotated[FacetOut, BeforeValidator(_as_written)]


class FacetsOut(FromValue):
    """The commonest values among the stories that were found; only on the first page."""

    channels: list[Narrowing]
    tags: list[Narrowing]
    topics: list[Narrowing]
    languages: list[Narrowing]
    has: list[Narrowing]


class OfferOut(FromValue):
    """Another query that finds something."""

    query: str = Field(examples=["цены на нефть"])
    found: int = Field(description="Stories that it finds.")
    without: str = Field(description="The filters that it leaves out; empty: it is spelt otherwise.")


class SearchOut(FromValue):
    """One page of what was found."""

    items: list[HitOut] = Field(validation_alias="hits")
    next: str | None = Field(validation_alias="cursor", description="Send it back as `cursor`; null: that was all.")
    found: int = Field(description="Stories that have the words, of the newest thousand posts that do.")
    near: int = Field(description="Further stories, that are only near in meaning. They are in no facet.")
    at_least: bool = Field(description="There are more posts than the thousand: `found` and facets may be larger.")
    facets: FacetsOut
    notes: list[Remark] = Field(description="What of the query could not be followed.")
    without_meaning: str = Field(description="Why the search went by words alone; empty: it did not have to.")
    offers: list[OfferOut] = Field(description="What to try where nothing was found; a saved search waits for posts.")


class QuestionIn(BaseModel):
    """What to answer."""

    model_config = example(question="Кто выиграл Кубок России? channel:@sport after:30d")

    question: Annotated[str, Field(max_length=LONGEST_QUESTION, description="May have filters, as any query.")]


class AnswerOut(FromValue):
    """An answer from the posts alone; without sentences they do not have one."""

    model_config = example(
        answered=True,
        sentences=[{"text": "«Спартак» обыграл «Зенит» в финале.", "sources": [1]}],
        sources=[],
        quotes=[],
        looked_at=8,
        notes=[],
        without_meaning="",
    )

    answered: bool = Field(description="False: it is not in your channels.")
    sentences: list[Said]
    sources: list[FoundPostOut] = Field(description="The posts that the sentences name: the first is number 1.")
    quotes: list[str] = Field(description="Of each source the passage that says it, in the same order.")
    looked_at: int = Field(description="Posts that were read for it.")
    notes: list[Remark]
    without_meaning: str


router = APIRouter(prefix="/search", tags=["search"])
ask = APIRouter(prefix="/ask", tags=["ask"])


def zone_named(name: str | None) -> tzinfo:
    """Raises a problem for an unknown zone."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise Problem(422, "zone: is no time zone; write one as in Europe/Moscow") from exc


@router.get("", operation_id="search_posts", summary="Find posts by words and by meaning")
async def search_posts(
    services: ServicesDep,
    caller: CallerDep,
    *,
    q: Annotated[
        str,
        Query(
            max_length=LONGEST_QUESTION,
            description="In the query language. Empty: the newest posts.",
            examples=["цены на нефть -газ has:photo after:7d"],
        ),
    ] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_HITS)] = 20,
    cursor: Annotated[str | None, Query(max_length=LONGEST_OF_SEARCH)] = None,
    sort: Annotated[Sort, Query(description="Without words it is always the newest.")] = Sort.BEST,
    zone: Annotated[str | None, Query(max_length=100, description="Where dates are meant; UTC if left out.")] = None,
) -> SearchOut:
    """Words in every inflection, phrases, exact forms, filters; posts that mean the same are found too. Near duplicates
    across channels are one item. Pages fit together while posts come: a cursor shows what was there at the first."""
    results = await services.search.search(
        caller.tenant_id, q, limit=limit, cursor=cursor, sort=sort, zone=zone_named(zone)
    )
    return SearchOut.model_validate(results)


@ask.post("", operation_id="ask_question", summary="Answer a question from the posts")
async def ask_question(services: ServicesDep, caller: CallerDep, asked: QuestionIn) -> AnswerOut:
    """From the posts of your channels and from nothing else. With the local models the sentences are those of posts;
    with a language model they are its own, and each names posts that say so. `answered` is false where they do not."""
    return AnswerOut.model_validate(await services.asking.ask(caller.tenant_id, asked.question))


graph = APIRouter(prefix="/graph", tags=["graph"])


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


@graph.get("", operation_id="walk_graph", summary="A node of the graph and its neighbours")
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
