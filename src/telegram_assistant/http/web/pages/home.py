"""`/`: what is new, story by story, and whether all is well."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from telegram_assistant.domain.access import SYSTEM_TENANT, Caller
from telegram_assistant.domain.results import Hit, Results, Shown, Snippet, Sort, Teller
from telegram_assistant.http.answers import LONGEST as LONGEST_CURSOR
from telegram_assistant.http.answers import read_post, write_place
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import fragment, page
from telegram_assistant.http.web.rendering import highlighted
from telegram_assistant.search.snippets import LENGTH
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.post_views import PostFiles, ShownFile
from telegram_assistant.stores.postgres.visible_posts import Overview, VisiblePosts

STORIES = 12  # on a page
PICTURES = 4  # of a story
TELLERS = 4  # that are named
DAY = timedelta(days=1)
# A search's cursor, or one of ours.
Cursor = Annotated[str | None, Query(max_length=LONGEST_CURSOR)]

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class ShownStory:
    """A story as the page shows it. `post_id`: of an album, the post that has the words."""

    hit: Hit
    post_id: UUID
    text: Markup
    pictures: list[ShownFile]
    more_pictures: int

    @property
    def first(self) -> Teller | None:
        """Who told it first, if several do."""
        return self.hit.tellers[0] if self.hit.tellers else None

    @property
    def others(self) -> tuple[Teller, ...]:
        """Who tells it besides."""
        return tuple(one for one in self.hit.tellers if one.post_id != self.hit.post.post_id)


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
    wanted = [post_id for hit in found.hits for post_id in hit.album or (hit.post.post_id,)]
    files = await PostFiles(services.database).of_posts(caller.tenant_id, wanted)
    silent = [post_id for hit in found.hits if hit.album and not hit.post.text for post_id in hit.album]
    captions = await VisiblePosts(services.database).posts(caller.tenant_id, silent)
    newest = max((hit.post for hit in found.hits), key=lambda post: (post.posted_at, post.post_id), default=None)
    return {
        "stories": [_story(hit, files, captions) for hit in found.hits],
        "next": found.cursor,
        "newest": write_place(newest.posted_at, newest.post_id) if newest else None,
        "tellers": TELLERS,
    }


def _story(hit: Hit, files: dict[UUID, list[ShownFile]], captions: dict[UUID, Shown]) -> ShownStory:
    posts = hit.album or (hit.post.post_id,)
    pictures = [file for post_id in posts for file in files.get(post_id, ()) if file.is_picture]
    speaker = next((captions[one] for one in posts if one in captions and captions[one].text), None)
    text = highlighted(_beginning(speaker.text) if speaker else hit.snippet)
    post_id = speaker.post_id if speaker else hit.post.post_id
    return ShownStory(hit, post_id, text, pictures[:PICTURES], max(0, len(pictures) - PICTURES))


def _beginning(text: str) -> Snippet:
    return Snippet(text[:LENGTH], cut_after=len(text) > LENGTH)


async def _health(services: Services, caller: Caller) -> dict[str, Any]:
    """What is wrong is said to who runs the system; the report names channels of everybody."""
    details = await services.health.details()
    runs_it = caller.is_admin and caller.tenant_id == UUID(SYSTEM_TENANT)
    return {"well": details["status"] == "ok", "troubles": details["troubles"] if runs_it else []}
