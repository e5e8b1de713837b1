"""`/posts/{id}`: a post with all that is known of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.interests import Act
from telegram_assistant.errors import Retry
from telegram_assistant.http.dependencies import CallerDep, GraphWalkDep, PostId, ServicesDep
from telegram_assistant.http.web.page import fragment, page, zone_of
from telegram_assistant.http.web.rendering import diff, rendered, safe_href, search_href
from telegram_assistant.services.reading import note, view_of
from telegram_assistant.stores.postgres.pipeline import Recorded
from telegram_assistant.stores.postgres.post_views import Counted, PostViews, Version

SIMILAR = 6
MOST_DIFFS = 20
VEILED = 0.8  # the score from which on a picture is covered
# Of each longer unit, how many seconds it has.
UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Change:
    """What an edit changed."""

    version: int
    at: datetime | None
    text: Markup


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step of the path, with how long after the capture it was done."""

    step: Recorded
    after: tuple[str, float]
    took: tuple[str, float]


@router.get("/posts/{post_id}")
async def post(request: Request, services: ServicesDep, caller: CallerDep, post_id: PostId) -> HTMLResponse:
    view = await view_of(services, caller, post_id)
    views = PostViews(services.database)
    versions = await views.versions(caller.tenant_id, view.id)
    counters = await views.counters(caller.tenant_id, view.id)
    path = await views.path(caller.tenant_id, view.id)
    await note(services, caller, Act.VIEW, [*view.found.topics, *view.found.tags[:2]])
    return page(
        request,
        "post.html",
        caller=caller,
        post=view,
        text=rendered(view.caption.text, view.caption.entities) if view.caption else rendered(view.text, view.entities),
        changes=await asyncio.to_thread(_changes, versions),
        charts=_charts(counters, zone_of(request)),
        steps=_path(path),
        pictures=[file for file in view.files if file.is_picture],
        videos=[file for file in view.files if file.is_video],
        others=[file for file in view.files if not file.is_picture and not file.is_video],
        veiled=VEILED,
        safe_href=safe_href,
        search_href=search_href,
    )


@router.get("/posts/{post_id}/similar")
async def similar(request: Request, services: ServicesDep, caller: CallerDep, post_id: PostId) -> HTMLResponse:
    """Loaded after the page, which does not wait for the index."""
    await view_of(services, caller, post_id)
    try:
        hits = await services.search.similar(caller.tenant_id, post_id, limit=SIMILAR)
    except Retry as exc:
        return _away(request, caller, post_id, "similar", exc)
    return fragment(request, "post_similar.html", caller=caller, hits=hits)


@router.get("/posts/{post_id}/around")
async def around(
    request: Request, services: ServicesDep, walking: GraphWalkDep, caller: CallerDep, post_id: PostId
) -> HTMLResponse:
    """From the graph, likewise."""
    await view_of(services, caller, post_id)
    try:
        found = await walking.around_post(caller.tenant_id, post_id, limit=SIMILAR)
    except Retry as exc:
        return _away(request, caller, post_id, "around", exc)
    return fragment(request, "post_around.html", caller=caller, found=found, search_href=search_href)


def _away(request: Request, caller: Caller, post_id: UUID, part: str, exc: Retry) -> HTMLResponse:
    return fragment(request, "post_away.html", caller=caller, post_id=post_id, part=part, reason=str(exc))


def _changes(versions: Sequence[Version]) -> list[Change]:
    """The newest first. What only formatting or media changed has no words to show."""
    return [
        Change(new.version, new.edited_at or old.until, diff(old.text, new.text))
        for new, old in pairwise(versions[: MOST_DIFFS + 1])
        if new.text != old.text
    ]


def _charts(counters: Sequence[Counted], zone: tzinfo) -> list[list[tuple[str, Any]]]:
    """Views by themselves, because they are many; series of one point are no series."""
    charts = []
    for names in (("views",), ("forwards", "reactions", "replies")):
        series = [
            (name, [(one.at.astimezone(zone), value) for one in counters if (value := getattr(one, name)) is not None])
            for name in names
        ]
        grown = [(name, points) for name, points in series if len(points) > 1 and any(value for _, value in points)]
        if grown:
            charts.append(grown)
    return charts


def _path(steps: Sequence[Recorded]) -> list[ShownStep]:
    return [
        ShownStep(step, _span((step.at - steps[0].at).total_seconds()), _span(step.duration_ms / 1000))
        for step in steps
    ]


def _span(seconds: float) -> tuple[str, float]:
    """The unit, and how many of it."""
    for size, unit in UNITS:
        if abs(seconds) >= size:
            return unit, seconds / size
    return "milliseconds", seconds * 1000
