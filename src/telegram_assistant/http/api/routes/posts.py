"""Posts: the newest, one with everything that hangs on it, and how it came here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, AwareDatetime

from telegram_assistant.http.api.models.posts import (
    CountedOut,
    CountersOut,
    NeighboursOut,
    PostLineOut,
    PostListOut,
    PostOut,
    SimilarOut,
    StepOut,
    TraceOut,
    VersionOut,
    VersionsOut,
)
from telegram_assistant.http.auth import CallerDep, ServicesDep
from telegram_assistant.http.cursor import FIRST, LAST, read_post, write_place
from telegram_assistant.http.cursor import LONGEST as LONGEST_CURSOR
from telegram_assistant.http.etag import etagged
from telegram_assistant.http.parameters import PostId
from telegram_assistant.services.media_links import MediaLinks
from telegram_assistant.services.posts import around_of, view_of
from telegram_assistant.services.problems import not_found
from telegram_assistant.stores.postgres.post_lists import SearchPosts
from telegram_assistant.stores.postgres.post_views import PostView, PostViews

router = APIRouter(prefix="/posts", tags=["posts"])


def _sensible(moment: datetime) -> datetime:
    if not FIRST < moment < LAST:
        raise ValueError("is no time at which a post could be written")
    return moment


Moment = Annotated[AwareDatetime, AfterValidator(_sensible)]
Limit = Annotated[int, Query(ge=1, le=100)]


async def get_view(services: ServicesDep, caller: CallerDep, post_id: PostId) -> PostView:
    return await view_of(services, caller, post_id)


ViewDep = Annotated[PostView, Depends(get_view)]


@router.get("", operation_id="list_posts", summary="The newest posts")
async def list_posts(
    services: ServicesDep,
    caller: CallerDep,
    *,
    channel: Annotated[
        str | None, Query(pattern=r"^(?:@?[A-Za-z]\w{3,31}|[1-9]\d{0,11})$", description="Its @name or id.")
    ] = None,
    after: Annotated[Moment | None, Query(description="Posted at this time, or later.")] = None,
    before: Annotated[Moment | None, Query(description="Posted before this time.")] = None,
    limit: Limit = 20,
    cursor: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
) -> PostListOut:
    """Of all your channels, or of one. Deleted posts are left out, comments too."""
    channel_id = None
    if channel is not None:
        named = await SearchPosts(services.database).named(caller.tenant_id, [channel])
        if channel not in named:
            raise not_found("channel")
        channel_id = named[channel]
    found = await PostViews(services.database).newest(
        caller.tenant_id,
        limit=limit + 1,
        channel_id=channel_id,
        since=after,
        before=before,
        after=read_post(cursor) if cursor else None,
    )
    items, last = found[:limit], found[limit - 1] if len(found) > limit else None
    return PostListOut(
        items=[PostLineOut.model_validate(line) for line in items],
        next=write_place(last.posted_at, last.id) if last else None,
    )


@router.get(
    "/{post_id}",
    operation_id="get_post",
    summary="A post",
    response_model=PostOut,
    responses={304: {"description": "You have it already."}},
)
async def get_post(request: Request, services: ServicesDep, caller: CallerDep, post_id: PostId) -> Response:
    """With its formatting, files, findings, pages, and where it comes from. Send its `ETag` as `If-None-Match`."""
    view = await view_of(services, caller, post_id)
    links = MediaLinks(services.signer, caller.tenant_id, services.clock())
    return etagged(request, PostOut.of(view, links))


@router.get("/{post_id}/versions", operation_id="list_post_versions", summary="What a post said before")
async def list_versions(services: ServicesDep, caller: CallerDep, post_id: PostId) -> VersionsOut:
    """The newest first, at most a hundred; the first is what it says now."""
    found = await PostViews(services.database).versions(caller.tenant_id, post_id)
    if not found:
        raise not_found("post")
    return VersionsOut(items=[VersionOut.model_validate(one) for one in found])


@router.get("/{post_id}/counters", operation_id="list_post_counters", summary="Its counters over time")
async def list_counters(services: ServicesDep, caller: CallerDep, post_id: PostId) -> CountersOut:
    """Views, forwards, replies and reactions, whenever they changed; the last is how they are now."""
    found = await PostViews(services.database).counters(caller.tenant_id, post_id)
    if not found:
        raise not_found("post")
    return CountersOut(items=[CountedOut.model_validate(one) for one in found])


@router.get("/{post_id}/trace", operation_id="get_post_trace", summary="How it came here")
async def get_trace(services: ServicesDep, caller: CallerDep, post_id: PostId) -> TraceOut:
    """Each stage that it went through, with its time and what came of it."""
    found = await PostViews(services.database).path(caller.tenant_id, post_id)
    if not found:
        raise not_found("post")
    return TraceOut(items=[StepOut.model_validate(one) for one in found])


@router.get("/{post_id}/similar", operation_id="list_similar_posts", summary="Posts near in meaning")
async def list_similar(
    services: ServicesDep, caller: CallerDep, post_id: PostId, _: ViewDep, limit: Limit = 10
) -> SimilarOut:
    """Of your channels. `503` while the vector index is away."""
    return SimilarOut.of(await services.search.similar(caller.tenant_id, post_id, limit=limit))


@router.get("/{post_id}/neighbours", operation_id="list_post_neighbours", summary="Around it in the graph")
async def list_neighbours(
    services: ServicesDep, caller: CallerDep, post_id: PostId, _: ViewDep, limit: Limit = 10
) -> NeighboursOut:
    """Posts about the same, and the other forwards of the same origin. `503` while the graph is away."""
    return NeighboursOut.of(await around_of(services, caller, post_id, limit=limit))
