"""Trends: what rises in your channels, who told of it first, and how it spread. Interests, and what fits them."""

from __future__ import annotations

from datetime import date, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from telegram_assistant.domain.interests import LONGEST_TOPIC, Weighed
from telegram_assistant.domain.trends import Kind, Subject
from telegram_assistant.http.answers import (
    Cursor,
    FromValue,
    Items,
    Page,
    etagged,
    example,
    page_of,
    read_cursor,
    rounded,
    strange_cursor,
    write_cursor,
)
from telegram_assistant.http.dependencies import CallerDep, ServicesDep, TrendId
from telegram_assistant.i18n import LANGUAGES
from telegram_assistant.jobs.interests import Advisor
from telegram_assistant.language.taxonomy import topic_title
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.reading import MOST_DAYS, choose, forget, look_now, span_of, weighed_of
from telegram_assistant.stores.postgres.trends import Place, Rising, State, Trends


class SubjectOut(FromValue):
    """What rises: a topic, an entity or a phrase."""

    kind: Kind
    key: str
    names: dict[str, str] | None = Field(None, description="Of a topic: in Russian and English.")


def _called(found: Subject | Rising, info: ValidationInfo) -> SubjectOut:
    """The context is the file of the taxonomy, or None for ours."""
    subject = found.subject if isinstance(found, Rising) else found
    names = {language: topic_title(subject.key, language, info.context) for language in LANGUAGES}
    return SubjectOut(kind=subject.kind, key=subject.key, names=names if subject.kind is Kind.TOPIC else None)


Called = Annotated[SubjectOut, BeforeValidator(_called)]


class StepOut(FromValue):
    """A channel that told of it, with its first post."""

    channel_id: int
    channel: str = Field(validation_alias="channel_title")
    post_id: UUID
    posted_at: datetime
    url: str
    copy_of: UUID | None = Field(
        validation_alias="source_id", description="The post that it copies or forwards; null: its own words."
    )
    forwarded_from: str | None = Field(
        None, validation_alias="origin", description="Whom it names as its source, if it is a forward."
    )


class TrendOut(FromValue):
    """An event that rose against its own past."""

    model_config = example(
        id="6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
        main={"kind": "entity", "key": "Южная Корея", "names": None},
        subjects=[],
        state="daily",
        score=6.6,
        mentions=13,
        expected=0.4,
        lift=32.5,
        channels=7,
        posts=19,
        counts=[0, 1, 0, 0, 1, 0, 0, 13],
        baseline_days=25,
        window_start="2024-12-03T00:00:00Z",
        window_end="2024-12-04T00:00:00Z",
        first_at="2024-12-03T13:30:00Z",
        last_at="2024-12-03T22:10:00Z",
        found_at="2024-12-04T00:00:00Z",
        goes_on=False,
        first=None,
        path=[],
    )

    id: UUID
    main: Called
    subjects: list[Called] = Field(description="All that rose with it, the strongest first.")
    state: State = Field(description="`emerging`: seen during the day only, so far.")
    score: Annotated[float, rounded(2)] = Field(
        description="2: chance alone makes one such in a hundred looks; 3: in a thousand."
    )
    mentions: int = Field(description="In the window, without copies and repetitions.")
    expected: Annotated[float, rounded(3)] = Field(description="How many the past made one expect.")
    lift: Annotated[float, rounded(2)]
    channels: int = Field(description="That tell of it independently.")
    posts: Annotated[int, BeforeValidator(len)]
    counts: list[int] = Field(description="Mentions in the same hours of each day, the oldest first.")
    baseline_days: int = Field(description="Days of the past that it was compared with.")
    window_start: datetime = Field(validation_alias=AliasPath("window", "start"))
    window_end: datetime = Field(validation_alias=AliasPath("window", "end"))
    first_at: datetime
    last_at: datetime
    found_at: datetime
    goes_on: bool = Field(description="It was found on an earlier day.")
    first: StepOut | None = Field(description="Who told of it first.")
    path: list[StepOut] = Field(description="How it spread: channels in the order of time.")


class TrendPostOut(StepOut):
    """A post about it."""

    text: str = Field(description="Its beginning.")
    views: int | None


class TrendDetailsOut(TrendOut):
    """With its posts."""

    items: list[TrendPostOut] = Field(
        validation_alias=AliasPath("posts"), description="The posts that you see, in the order of time; at most 300."
    )


class TrendsFoundOut(FromValue):
    """What a look brought."""

    new: list[UUID] = Field(description="Trends that were not known before.")
    going_on: list[UUID] = Field(description="Known ones that go on.")


router = APIRouter(prefix="/trends", tags=["trends"])


def _sensible(day: date) -> date:
    if not 1970 < day.year < 9000:
        raise ValueError("is no day at which a post could be written")
    return day


Day = Annotated[date, AfterValidator(_sensible)]


@router.get("", operation_id="list_trends", summary="What rises in your channels")
async def list_trends(
    services: ServicesDep,
    caller: CallerDep,
    *,
    day: Annotated[Day | None, Query(description="Told of on this day (UTC).")] = None,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS, description="Without `day`: told of in the last so many.")] = 7,
    state: State | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Cursor = None,
) -> Page[TrendOut]:
    """The last day first, and of a day the strongest first."""
    since, before = span_of(services.clock(), day, days)
    found = await Trends(services.database).page(
        caller.tenant_id,
        since=since,
        before=before,
        limit=limit + 1,
        state=state,
        after=place_of(cursor) if cursor else None,
    )
    show = partial(TrendOut.model_validate, context=services.settings.ai_topics_file)
    return page_of(found, limit, show, lambda trend: write_trend(trend.place))


@router.post("/find", operation_id="find_trends", summary="Look for trends now")
async def find_now(services: ServicesDep, caller: CallerDep) -> TrendsFoundOut:
    """In the last 24 hours of your channels. It is done each midnight (UTC) by itself, and takes a while."""
    return TrendsFoundOut.model_validate(await look_now(services, caller))


@router.get("/{trend_id}", operation_id="get_trend", summary="A trend with its posts", response_model=TrendDetailsOut)
async def get_trend(request: Request, services: ServicesDep, caller: CallerDep, trend_id: TrendId) -> Response:
    found = await Trends(services.database).get(caller.tenant_id, trend_id)
    if found is None:
        raise not_found("trend")
    return etagged(request, TrendDetailsOut.model_validate(found, context=services.settings.ai_topics_file))


def write_trend(place: Place) -> str:
    return write_cursor(place.day, repr(place.score), str(place.trend_id))


def place_of(cursor: str) -> Place:
    day, score, trend_id = read_cursor(cursor, int, str, str)
    try:
        place = Place(int(day), float(score), UUID(str(trend_id)))
    except ValueError as exc:
        raise strange_cursor() from exc
    if not isfinite(place.score) or abs(place.day) >= 2**31:
        raise strange_cursor()
    return place


LONGEST_TEXT = 280  # characters of a recommended post


class InterestOut(BaseModel):
    """Something that you are interested in."""

    model_config = example(
        topic="economy",
        names={"en": "Economy", "ru": "Экономика"},
        weight=0.83,
        queries=3.1,
        views=12.4,
        chosen=None,
        last_at="2026-11-12T09:30:00Z",
    )

    topic: str
    names: dict[str, str] = Field(description="What it is called, by language; a word of your own is itself.")
    weight: float = Field(description="0 to 1.")
    queries: float = Field(description="Searches about it; they fade over 30 days, as everything does.")
    views: float = Field(description="Posts about it that you opened.")
    chosen: float | None = Field(description="The weight that you gave it; null: it follows from what you do.")
    last_at: datetime


class ChosenIn(BaseModel):
    """An interest that you choose, or change."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"topic": "космос", "weight": 0.6}]})

    topic: str = Field(min_length=1, max_length=LONGEST_TOPIC, description="A topic by key or name, or any word.")
    weight: float | None = Field(
        1.0, ge=0, le=1, description="0: never; null: as it follows from what you do.", allow_inf_nan=False
    )


class RecommendedPostOut(FromValue):
    """A post that fits."""

    post_id: UUID = Field(validation_alias=AliasPath("post", "post_id"))
    channel_id: int = Field(validation_alias=AliasPath("post", "channel_id"))
    channel: str = Field(validation_alias=AliasPath("post", "channel_title"))
    posted_at: datetime = Field(validation_alias=AliasPath("post", "posted_at"))
    text: Annotated[str, AfterValidator(lambda text: text[:LONGEST_TEXT])] = Field(
        validation_alias=AliasPath("post", "text"), description="Its beginning."
    )
    url: str = Field(validation_alias=AliasPath("post", "url"))
    why: list[str] = Field(description="The interests that it meets.")
    score: Annotated[float, rounded(3)]


class RecommendedChannelOut(FromValue):
    """A channel that you watch and that writes about it."""

    channel_id: int
    title: str
    username: str | None
    posts: int = Field(description="Of the last 30 days.")
    fitting: int = Field(description="Those of them that fit.")
    why: list[str] = Field(validation_alias="labels")


class NewChannelOut(FromValue):
    """A public channel that yours forward from, and that you do not watch."""

    title: str
    username: str
    posts: int = Field(description="Posts of your channels that come from it.")
    channels: int = Field(description="Channels of yours that forward it.")


class RecommendationsOut(FromValue):
    """What fits your interests."""

    posts: list[RecommendedPostOut]
    channels: list[RecommendedChannelOut]
    new_channels: list[NewChannelOut] = Field(validation_alias="origins")


MOST_RECOMMENDED = 50

interests = APIRouter(prefix="/interests", tags=["interests"])


@interests.get("", operation_id="list_interests", summary="Your interests")
async def list_interests(services: ServicesDep, caller: CallerDep) -> Items[InterestOut]:
    """From your searches, from what you open, and from what you chose; the strongest first, at most 200. Other users do
    not see them."""
    found = await weighed_of(services, caller)
    return Items(items=[_interest(one, services.settings.ai_topics_file) for one in found])


def _interest(weighed: Weighed, topics: Path | None) -> InterestOut:
    one = weighed.interest
    return InterestOut(
        topic=one.topic,
        names={language: topic_title(one.topic, language, topics) for language in LANGUAGES},
        weight=round(weighed.weight, 3),
        queries=round(one.queries, 2),
        views=round(one.views, 2),
        chosen=one.chosen,
        last_at=one.last_at,
    )


@interests.put("", operation_id="choose_interest", summary="Choose an interest, or change one")
async def choose_interest(services: ServicesDep, caller: CallerDep, chosen: ChosenIn) -> Items[InterestOut]:
    await choose(services, caller, chosen.topic, chosen.weight)
    return await list_interests(services, caller)


@interests.delete("", status_code=204, operation_id="forget_interests", summary="Forget an interest, or all")
async def forget_interests(
    services: ServicesDep,
    caller: CallerDep,
    topic: Annotated[str | None, Query(max_length=LONGEST_TOPIC, description="Without it: all.")] = None,
) -> None:
    if not await forget(services, caller, topic) and topic is not None:
        raise not_found("interest")


@interests.get("/recommendations", operation_id="list_recommendations", summary="Posts and channels that fit them")
async def list_recommendations(
    services: ServicesDep, caller: CallerDep, limit: Annotated[int, Query(ge=1, le=MOST_RECOMMENDED)] = 12
) -> RecommendationsOut:
    advisor = Advisor(services.database, services.clock)
    found = await advisor.recommend(caller.tenant_id, caller.user_id, limit=limit)
    return RecommendationsOut.model_validate(found)
