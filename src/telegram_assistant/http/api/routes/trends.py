"""Trends: what rises in your channels, who told of it first, and how it spread."""

from __future__ import annotations

from datetime import date
from math import isfinite
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator

from telegram_assistant.http.api.models.trends import TrendDetailsOut, TrendListOut, TrendOut, TrendsFoundOut
from telegram_assistant.http.auth import CallerDep, ServicesDep
from telegram_assistant.http.cursor import LONGEST, read_cursor, strange_cursor, write_cursor
from telegram_assistant.http.etag import etagged
from telegram_assistant.http.parameters import TrendId
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.trends import MOST_DAYS, look_now, span_of
from telegram_assistant.stores.postgres.trends import Place, State, Trends

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
