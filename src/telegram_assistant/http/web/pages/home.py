"""`/`: what is new, story by story, and whether all is well."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.results import Hit, Results, Shown, Sort
from telegram_assistant.http.answers import LONGEST as LONGEST_CURSOR
from telegram_assistant.http.answers import Cursor, read_post, write_place
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import fragment, page
from telegram_assistant.http.web.pages.search import files_of, shown_hit
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.visible_posts import Overview, VisiblePosts

STORIES = 12  # on a page
TELLERS = 4  # that are named
DAY = timedelta(days=1)

router = APIRouter(include_in_schema=False)


@router.get("/")
async def home(request: Request, services: ServicesDep, caller: CallerDep, cursor: Cursor = None) -> HTMLResponse:
    found, overview, health = await asyncio.gather(
        _newest(services, caller, cursor), _overview(services, caller), _health(services, caller)
    )
    return page(
        request,
        "home.html",
        caller=caller,
        overview=overview,
        health=health,
        facets=found.facets,
        **await _stories(services, caller, found),
    )


@router.get("/home/starting")
async def starting(request: Request, services: ServicesDep, caller: CallerDep) -> Response:
    """How far a fresh install has got; with the first post that can be found the page is loaded anew."""
    searchable = await VisiblePosts(services.database).searchable(caller.tenant_id)
    if searchable:
        return Response(headers={"HX-Refresh": "true"})
    overview = await _overview(services, caller)
    return fragment(request, "home_starting.html", caller=caller, overview=overview)


@router.get("/home/stories")
async def stories(request: Request, services: ServicesDep, caller: CallerDep, cursor: Cursor = None) -> HTMLResponse:
    """Further ones, below those that are there."""
    found = await _newest(services, caller, cursor)
    return fragment(request, "home_stories.html", caller=caller, **await _stories(services, caller, found))


@router.get("/home/new")
async def new(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    after: Annotated[str, Query(max_length=LONGEST_CURSOR)],
) -> HTMLResponse:
    """How many stories came since the page was made, asked when a post is announced."""
    place = read_post(after)
    count = await VisiblePosts(services.database).new_after(caller.tenant_id, place.posted_at, place.post_id)
    return fragment(request, "home_new.html", caller=caller, count=count)


async def _overview(services: Services, caller: Caller) -> Overview:
    return await VisiblePosts(services.database).overview(caller.tenant_id, since=services.clock() - DAY)


async def _newest(services: Services, caller: Caller, cursor: str | None) -> Results:
    return await services.search.search(caller.tenant_id, "", sort=Sort.NEWEST, limit=STORIES, cursor=cursor)


async def _stories(services: Services, caller: Caller, found: Results) -> dict[str, Any]:
    files = await files_of(services, caller, found)
    silent = [post_id for hit in found.hits if hit.album and not hit.post.text for post_id in hit.album]
    captions = await VisiblePosts(services.database).posts(caller.tenant_id, silent)
    newest = max((hit.post for hit in found.hits), key=lambda post: (post.posted_at, post.post_id), default=None)
    return {
        "stories": [shown_hit(hit, files, _caption(hit, captions)) for hit in found.hits],
        "next": found.cursor,
        "newest": write_place(newest.posted_at, newest.post_id) if newest else None,
        "tellers": TELLERS,
    }


def _caption(hit: Hit, captions: dict[UUID, Shown]) -> Shown | None:
    return next((captions[one] for one in hit.posts if one in captions and captions[one].text), None)


async def _health(services: Services, caller: Caller) -> dict[str, Any]:
    """What is wrong is said to the operator only: the report names channels of all tenants."""
    details = await services.health.details()
    return {"well": details["status"] == "ok", "troubles": details["troubles"] if caller.is_operator else []}
