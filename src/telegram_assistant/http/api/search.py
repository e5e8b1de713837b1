"""Search: posts by words and by meaning."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from telegram_assistant.domain.query import Note
from telegram_assistant.domain.results import Facet, Facets, Hit, Origin, Results, Shown, Snippet, Sort
from telegram_assistant.domain.saved_search import LONGEST_NAME, Alert, DeliveryState, SavedSearch
from telegram_assistant.http.answers import LONGEST_OF_SEARCH
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.search.ask import Answered
from telegram_assistant.search.service import MOST_HITS
from telegram_assistant.services.problems import Problem

POST = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
SEARCH = "1b671a64-40d5-491e-99b0-da01ff1f3341"
LONGEST_QUESTION = 16_000


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [values]})


class NoteOut(BaseModel):
    """A remark on a query."""

    kind: str = Field(description="Which remark it is, for programs.", examples=["no_such_channel"])
    value: str = Field(description="What it is about.", examples=["@nobody"])
    text: str = Field(description="The remark, in English.", examples=["you have no channel @nobody"])

    @classmethod
    def of(cls, note: Note) -> NoteOut:
        return cls(kind=note.trouble.name.lower(), value=note.value, text=str(note))


class SnippetOut(BaseModel):
    """The piece of a post that shows why it was found. Plain text, never markup."""

    text: str
    spans: list[tuple[int, int]] = Field(description="Where the words are: first and after the last, in characters.")
    origin: Origin = Field(description="The post itself, a picture of it, or a page that it links to.")
    cut_before: bool
    cut_after: bool

    @classmethod
    def of(cls, snippet: Snippet) -> SnippetOut:
        return cls(
            text=snippet.text,
            spans=list(snippet.spans),
            origin=snippet.origin,
            cut_before=snippet.cut_before,
            cut_after=snippet.cut_after,
        )


class FoundPostOut(BaseModel):
    """A post, in short."""

    id: UUID
    url: str = Field(examples=["https://t.me/durov/142"])
    channel_id: int
    channel: str
    posted_at: datetime
    edited: bool = False
    deleted: bool = False

    @classmethod
    def of(cls, post: Shown) -> FoundPostOut:
        return cls(
            id=post.post_id,
            url=post.url,
            channel_id=post.channel_id,
            channel=post.channel_title,
            posted_at=post.posted_at,
            edited=post.edited,
            deleted=post.deleted,
        )


class TellerOut(BaseModel):
    """Who else tells a story; the first source comes first."""

    id: UUID
    url: str
    channel_id: int
    channel: str
    posted_at: datetime


class HitOut(BaseModel):
    """A story: the post that fits best, and everybody who tells it."""

    model_config = _example(
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
    score: float = Field(description="To compare within one search only.")
    by_words: bool
    by_meaning: bool
    album: list[UUID] = Field(description="All posts of its album, in their order.")
    pictures: list[str] = Field(description="SHA-256 of its photos: see /media.")
    tellers: list[TellerOut] = Field(description="All channels that tell it, this one too; empty: no other does.")

    @classmethod
    def of(cls, hit: Hit) -> HitOut:
        return cls(
            post=FoundPostOut.of(hit.post),
            snippet=SnippetOut.of(hit.snippet),
            score=round(hit.score, 4),
            by_words=hit.by_words,
            by_meaning=hit.by_meaning,
            album=list(hit.album),
            pictures=list(hit.pictures),
            tellers=[
                TellerOut(
                    id=one.post_id,
                    url=one.url,
                    channel_id=one.channel_id,
                    channel=one.channel_title,
                    posted_at=one.posted_at,
                )
                for one in hit.tellers
            ],
        )


class FacetOut(BaseModel):
    """A value that narrows the search, and in how many of the found posts it stands."""

    value: str = Field(examples=["@durov"])
    posts: int
    title: str = Field(description="Of a channel.")

    @classmethod
    def of(cls, facet: Facet) -> FacetOut:
        return cls(value=facet.name or facet.value, posts=facet.posts, title=facet.title)


class FacetsOut(BaseModel):
    """The commonest values among the thousand best, or newest; only on the first page."""

    channels: list[FacetOut]
    tags: list[FacetOut]
    topics: list[FacetOut]
    languages: list[FacetOut]
    has: list[FacetOut]

    @classmethod
    def of(cls, facets: Facets) -> FacetsOut:
        return cls(**{name: [FacetOut.of(one) for one in getattr(facets, name)] for name in cls.model_fields})


class SearchOut(BaseModel):
    """One page of what was found."""

    items: list[HitOut]
    next: str | None = Field(description="Send it back as `cursor`; null: that was all.")
    found: int = Field(description="Stories, as far as they were looked at: at most a thousand.")
    facets: FacetsOut
    notes: list[NoteOut] = Field(description="What of the query could not be followed.")
    without_meaning: str = Field(description="Why the search went by words alone; empty: it did not have to.")

    @classmethod
    def of(cls, results: Results) -> SearchOut:
        return cls(
            items=[HitOut.of(hit) for hit in results.hits],
            next=results.cursor,
            found=results.found,
            facets=FacetsOut.of(results.facets),
            notes=[NoteOut.of(note) for note in results.notes],
            without_meaning=results.without_meaning,
        )


class QuestionIn(BaseModel):
    """What to answer."""

    model_config = _example(question="Кто выиграл Кубок России? channel:@sport after:30d")

    question: Annotated[str, Field(max_length=LONGEST_QUESTION, description="May have filters, as any query.")]


class SentenceOut(BaseModel):
    """One sentence, and the numbers of the posts that say so (from 1)."""

    text: str
    sources: list[int]


class AnswerOut(BaseModel):
    """An answer from the posts alone; without sentences they do not have one."""

    model_config = _example(
        answered=True,
        sentences=[{"text": "«Спартак» обыграл «Зенит» в финале.", "sources": [1]}],
        sources=[],
        looked_at=8,
        notes=[],
        without_meaning="",
    )

    answered: bool = Field(description="False: it is not in your channels.")
    sentences: list[SentenceOut]
    sources: list[FoundPostOut] = Field(description="The posts that the sentences name: the first is number 1.")
    looked_at: int = Field(description="Posts that were read for it.")
    notes: list[NoteOut]
    without_meaning: str

    @classmethod
    def of(cls, answered: Answered) -> AnswerOut:
        return cls(
            answered=bool(answered.sentences),
            sentences=[SentenceOut(text=said.text, sources=list(said.sources)) for said in answered.sentences],
            sources=[FoundPostOut.of(post) for post in answered.sources],
            looked_at=answered.looked_at,
            notes=[NoteOut.of(note) for note in answered.notes],
            without_meaning=answered.without_meaning,
        )


class SavedSearchIn(BaseModel):
    """A search to keep."""

    model_config = _example(query="нефть OR газ -реклама", name="Energy", web=True)

    query: Annotated[str, Field(max_length=LONGEST_QUESTION, description="See docs/reference/query-language.md.")]
    name: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    web: bool = Field(default=True, description="Whether what it finds counts as unread.")


class SavedSearchChange(BaseModel):
    """What is to be different; what is left out stays."""

    model_config = _example(muted=True)

    name: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None
    web: bool | None = None
    muted: bool | None = Field(default=None, description="While it is muted nothing is looked for.")


class SavedSearchOut(BaseModel):
    """A search that is kept."""

    model_config = _example(
        id=SEARCH,
        name="Energy",
        query="нефть OR газ -реклама",
        web=True,
        muted=False,
        webhook_url=None,
        created_at="2026-05-02T09:30:00Z",
        unread=3,
        dead=0,
    )

    id: UUID
    name: str
    query: str
    web: bool
    muted: bool
    webhook_url: str | None
    created_at: datetime
    unread: int
    dead: int = Field(description="Alerts that the webhook did not take.")

    @classmethod
    def of(cls, saved: SavedSearch) -> SavedSearchOut:
        return cls(**{name: getattr(saved, name) for name in cls.model_fields})


class SavedSearchesOut(BaseModel):
    """All of yours, the newest first."""

    items: list[SavedSearchOut]
    next: None = None


class WebhookIn(BaseModel):
    """Where alerts are sent."""

    model_config = _example(url="https://example.org/telegram-alerts")

    url: Annotated[str, Field(max_length=2_000, description="http or https, at a public address.")]


class WebhookOut(BaseModel):
    """Where alerts are sent, and the secret that signs them: it is shown this once."""

    url: str = Field(examples=["https://example.org/telegram-alerts"])
    secret: str = Field(examples=["whsec_…"])


class WebhookTrialOut(BaseModel):
    """What the webhook answered."""

    status: int = Field(examples=[204])


class CountOut(BaseModel):
    """How many it were."""

    count: int


class AlertOut(BaseModel):
    """A post that a saved search found."""

    search_id: UUID
    search: str
    post: FoundPostOut
    text: str = Field(description="The beginning of the post.")
    found_at: datetime
    read: bool
    also: int = Field(description="Posts that told the same within a day: they made no alert of their own.")
    webhook: DeliveryState = Field(description="`shown`: there was no webhook.")
    attempts: int
    error: str

    @classmethod
    def of(cls, alert: Alert, post: Shown) -> AlertOut:
        return cls(
            search_id=alert.search_id,
            search=alert.search_name,
            post=FoundPostOut.of(post),
            text=post.text[:300],
            found_at=alert.found_at,
            read=alert.read_at is not None,
            also=alert.also,
            webhook=alert.state,
            attempts=alert.attempts,
            error=alert.error,
        )


class AlertsOut(BaseModel):
    """The newest first."""

    items: list[AlertOut]
    next: str | None
    unread: int


router = APIRouter(prefix="/search", tags=["search"])


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
    return SearchOut.of(results)
