"""Trends: what rises in your channels, who told of it first, and how it spread."""

from __future__ import annotations

from datetime import date, datetime
from math import isfinite
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from telegram_assistant.domain.trends import Kind, Subject
from telegram_assistant.http.answers import LONGEST, etagged, read_cursor, strange_cursor, write_cursor
from telegram_assistant.http.dependencies import CallerDep, ServicesDep, TrendId
from telegram_assistant.i18n import LANGUAGES
from telegram_assistant.language.taxonomy import topic_title
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.trends import MOST_DAYS, look_now, span_of
from telegram_assistant.stores.postgres.trends import FoundTrend, Place, State, TrendPost, Trends

EXAMPLE = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


class SubjectOut(BaseModel):
    """What rises: a topic, an entity or a phrase."""

    kind: Kind
    key: str
    names: dict[str, str] | None = Field(None, description="Of a topic: in Russian and English.")

    @classmethod
    def of(cls, subject: Subject, topics: Path | None) -> SubjectOut:
        """`topics`: the file of the taxonomy."""
        called = {language: topic_title(subject.key, language, topics) for language in LANGUAGES}
        return cls(kind=subject.kind, key=subject.key, names=called if subject.kind is Kind.TOPIC else None)


class StepOut(BaseModel):
    """A channel that told of it, with its first post."""

    channel_id: int
    channel: str
    post_id: UUID
    posted_at: datetime
    url: str
    copy_of: UUID | None = Field(description="The post that it copies or forwards; null: its own words.")
    forwarded_from: str | None = Field(None, description="Whom it names as its source, if it is a forward.")

    @classmethod
    def of(cls, post: TrendPost) -> StepOut:
        return cls(
            channel_id=post.channel_id,
            channel=post.channel_title,
            post_id=post.post_id,
            posted_at=post.posted_at,
            url=post.url,
            copy_of=post.source_id,
            forwarded_from=post.origin,
        )


class TrendOut(BaseModel):
    """An event that rose against its own past."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": EXAMPLE,
                    "main": {"kind": "entity", "key": "Южная Корея", "names": None},
                    "subjects": [],
                    "state": "daily",
                    "score": 6.6,
                    "mentions": 13,
                    "expected": 0.4,
                    "lift": 32.5,
                    "channels": 7,
                    "posts": 19,
                    "counts": [0, 1, 0, 0, 1, 0, 0, 13],
                    "baseline_days": 25,
                    "window_start": "2024-12-03T00:00:00Z",
                    "window_end": "2024-12-04T00:00:00Z",
                    "first_at": "2024-12-03T13:30:00Z",
                    "last_at": "2024-12-03T22:10:00Z",
                    "found_at": "2024-12-04T00:00:00Z",
                    "goes_on": False,
                    "first": None,
                    "path": [],
                }
            ]
        }
    )

    id: UUID
    main: SubjectOut
    subjects: list[SubjectOut] = Field(description="All that rose with it, the strongest first.")
    state: State = Field(description="`emerging`: seen during the day only, so far.")
    score: float = Field(description="2: chance alone makes one such in a hundred looks; 3: in a thousand.")
    mentions: int = Field(description="In the window, without copies and repetitions.")
    expected: float = Field(description="How many the past made one expect.")
    lift: float
    channels: int = Field(description="That tell of it independently.")
    posts: int
    counts: list[int] = Field(description="Mentions in the same hours of each day, the oldest first.")
    baseline_days: int = Field(description="Days of the past that it was compared with.")
    window_start: datetime
    window_end: datetime
    first_at: datetime
    last_at: datetime
    found_at: datetime
    goes_on: bool = Field(description="It was found on an earlier day.")
    first: StepOut | None = Field(description="Who told of it first.")
    path: list[StepOut] = Field(description="How it spread: channels in the order of time.")

    @classmethod
    def of(cls, trend: FoundTrend, topics: Path | None) -> TrendOut:
        return cls(**_shown(trend, topics))


class TrendPostOut(StepOut):
    """A post about it."""

    text: str = Field(description="Its beginning.")
    views: int | None

    @classmethod
    def of(cls, post: TrendPost) -> TrendPostOut:
        return cls(**StepOut.of(post).model_dump(), text=post.text, views=post.views)


class TrendDetailsOut(TrendOut):
    """With its posts."""

    items: list[TrendPostOut] = Field(description="The posts that you see, in the order of time; at most 300.")

    @classmethod
    def of(cls, trend: FoundTrend, topics: Path | None) -> TrendDetailsOut:
        return cls(**_shown(trend, topics), items=[TrendPostOut.of(post) for post in trend.posts])


class TrendListOut(BaseModel):
    """A page of trends."""

    items: list[TrendOut]
    next: str | None = None


class TrendsFoundOut(BaseModel):
    """What a look brought."""

    new: list[UUID] = Field(description="Trends that were not known before.")
    going_on: list[UUID] = Field(description="Known ones that go on.")


def _shown(trend: FoundTrend, topics: Path | None) -> dict[str, object]:
    path = [StepOut.of(post) for post in trend.path]
    return {
        "id": trend.id,
        "main": SubjectOut.of(trend.main, topics),
        "subjects": [SubjectOut.of(one.subject, topics) for one in trend.subjects],
        "state": trend.state,
        "score": round(trend.score, 2),
        "mentions": trend.mentions,
        "expected": round(trend.expected, 3),
        "lift": round(trend.lift, 2),
        "channels": trend.channels,
        "posts": len(trend.posts),
        "counts": list(trend.counts),
        "baseline_days": trend.baseline_days,
        "window_start": trend.window.start,
        "window_end": trend.window.end,
        "first_at": trend.first_at,
        "last_at": trend.last_at,
        "found_at": trend.found_at,
        "goes_on": trend.goes_on,
        "first": path[0] if path else None,
        "path": path,
    }


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
    cursor: Annotated[str | None, Query(max_length=LONGEST)] = None,
) -> TrendListOut:
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
    last = found[limit - 1].place if len(found) > limit else None
    return TrendListOut(
        items=[TrendOut.of(trend, services.settings.ai_topics_file) for trend in found[:limit]],
        next=write_cursor(last.day, repr(last.score), str(last.trend_id)) if last else None,
    )


@router.post("/find", operation_id="find_trends", summary="Look for trends now")
async def find_now(services: ServicesDep, caller: CallerDep) -> TrendsFoundOut:
    """In the last 24 hours of your channels. It is done each midnight (UTC) by itself, and takes a while."""
    saved = await look_now(services, caller)
    return TrendsFoundOut(new=list(saved.new), going_on=list(saved.going_on))


@router.get("/{trend_id}", operation_id="get_trend", summary="A trend with its posts", response_model=TrendDetailsOut)
async def get_trend(request: Request, services: ServicesDep, caller: CallerDep, trend_id: TrendId) -> Response:
    found = await Trends(services.database).get(caller.tenant_id, trend_id)
    if found is None:
        raise not_found("trend")
    return etagged(request, TrendDetailsOut.of(found, services.settings.ai_topics_file))


def place_of(cursor: str) -> Place:
    day, score, trend_id = read_cursor(cursor, int, str, str)
    try:
        place = Place(int(day), float(score), UUID(str(trend_id)))
    except ValueError as exc:
        raise strange_cursor() from exc
    if not isfinite(place.score) or abs(place.day) >= 2**31:
        raise strange_cursor()
    return place
