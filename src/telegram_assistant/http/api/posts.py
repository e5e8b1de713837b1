"""Posts: the newest, one with everything that hangs on it, and how it came here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field

from telegram_assistant.domain.models import Ocr
from telegram_assistant.domain.post import LARGEST_MESSAGE_ID
from telegram_assistant.domain.results import Shown
from telegram_assistant.http.answers import (
    FIRST,
    LAST,
    Cursor,
    FromValue,
    Items,
    Page,
    etagged,
    page_of,
    read_post,
    write_place,
)
from telegram_assistant.http.api.topics import ThreadOut
from telegram_assistant.http.dependencies import CallerDep, GraphWalkDep, PostId, ServicesDep
from telegram_assistant.services.media_links import MediaLinks
from telegram_assistant.services.problems import Problem, not_found
from telegram_assistant.services.reading import view_of
from telegram_assistant.stores.postgres.post_views import (
    AnswerTo,
    Counted,
    Findings,
    ForwardedFrom,
    LinkedPage,
    PostView,
    PostViews,
)
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

EXAMPLE = "3f0c7c52-5d0e-5c3a-9a53-0c7f7c1f2b11"
THUMBNAIL = 640
Value = TypeVar("Value")


class ChannelOut(FromValue):
    """A channel, as far as a post shows it."""

    id: int = Field(examples=[1234567890])
    title: str = Field(examples=["Daily News"])
    username: str | None = Field(examples=["daily_news"])


class PostLineOut(FromValue):
    """A post in a list."""

    id: UUID = Field(examples=[EXAMPLE])
    channel: ChannelOut
    message_id: int
    url: str = Field(description="The post in Telegram.", examples=["https://t.me/daily_news/42"])
    posted_at: datetime
    edited_at: datetime | None
    deleted_at: datetime | None
    text: str
    version: int = Field(description="1, and one more with every edit.")
    album_id: UUID | None
    has_media: bool
    views: int | None
    forwards: int | None
    replies: int | None
    reactions: dict[str, int] = Field(examples=[{"👍": 12}])


class EntityOut(FromValue):
    """Formatting. Offset and length count UTF-16 units, as Telegram does."""

    kind: str
    offset: int
    length: int
    url: str | None
    detail: str | None


class SeenOut(FromValue):
    """What was seen on a picture."""

    classification: str
    description: str
    is_meme: bool
    labels: list[str]
    objects: list[str]
    scene: str
    ocr: Ocr | None
    nsfw_score: float | None
    dominant_colors: list[str]
    provider: str
    model: str
    tokens_used: int


class FileOut(FromValue):
    """A file of the post, or of its album."""

    post_id: UUID
    position: int
    kind: str = Field(examples=["photo"])
    status: str = Field(description="pending, stored, skipped, failed or evicted.")
    reason: str | None = Field(description="Why it is not stored.")
    mime: str | None
    size: int | None
    width: int | None
    height: int | None
    duration: float | None
    name: str | None
    sha256: str | None
    url: str | None = Field(None, description="Where the file is; opens without a credential for an hour or two.")
    thumbnail: str | None = Field(None, description="A small copy of a picture, likewise.")
    seen: SeenOut | None


class PollOut(FromValue):
    """A poll or a quiz."""

    question: str
    answers: list[str]
    quiz: bool
    closed: bool
    voters: int | None


class CaptionOut(FromValue):
    """What the post that speaks for an album says."""

    post_id: UUID
    text: str
    entities: list[EntityOut]


class PostOut(PostLineOut):
    """A post with everything that hangs on it."""

    entities: list[EntityOut]
    pinned: bool
    captured_at: datetime
    author: str | None
    files: list[FileOut] = Field(description="Of the whole album, in its order.")
    album: list[UUID] = Field(description="All posts of its album, this one too.")
    caption: CaptionOut | None = Field(description="The words of its album, where another of its posts has them.")
    found: Findings
    pages: list[LinkedPage]
    forward: ForwardedFrom | None = Field(
        description="Where it comes from; what you do not watch has no name and no post here."
    )
    reply_to: AnswerTo | None
    poll: PollOut | None
    comments: int = Field(description="That are stored.")
    thread: ThreadOut | None = Field(description="The topic of the forum that it is in.")


class VersionOut(FromValue):
    """What the post said once, or says now (`until` is null)."""

    version: int
    text: str
    entities: list[EntityOut]
    edited_at: datetime | None
    until: datetime | None


class StepOut(FromValue):
    """What a stage of the pipeline did with the post."""

    stage: str = Field(examples=["tagging"])
    outcome: str = Field(description="done, skipped, waiting or dead.")
    note: str
    trace_id: str
    duration_ms: float
    at: datetime


class NearOut(BaseModel):
    """A post beside another one."""

    id: UUID
    channel: ChannelOut
    url: str
    posted_at: datetime
    text: str
    score: float | None = None
    shared: list[str] = Field(default=[], description="What both name: entities, tags, pages.")


class NeighboursOut(BaseModel):
    """What the graph knows around a post."""

    near: list[NearOut] = Field(description="About the same people, places, tags or pages.")
    forwards: list[NearOut] = Field(description="Of the same origin, the oldest first.")


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
    thread: Annotated[
        int | None, Query(ge=1, le=LARGEST_MESSAGE_ID, description="A topic of the forum that `channel` names.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Page[PostLineOut]:
    """Of all your channels, or of one, the newest first. Deleted posts are left out, comments too."""
    channel_id = None
    if thread is not None and channel is None:
        raise Problem(422, "Say with `channel` which group the thread is in")
    if channel is not None:
        named = await VisiblePosts(services.database).named(caller.tenant_id, [channel])
        if channel not in named:
            raise not_found("channel")
        channel_id = named[channel]
    found = await PostViews(services.database).newest(
        caller.tenant_id,
        limit=limit + 1,
        channel_id=channel_id,
        since=after,
        before=before,
        thread=thread,
        after=read_post(cursor) if cursor else None,
    )
    return page_of(found, limit, PostLineOut.model_validate, lambda line: write_place(line.posted_at, line.id))


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
    out = PostOut.model_validate(view)
    for file, shown in zip(view.files, out.files, strict=True):
        if file.status == "stored" and file.sha256:
            shown.url = links.file(file.sha256)
        if file.is_picture and file.sha256:
            shown.thumbnail = links.thumbnail(file.sha256, THUMBNAIL)
    return etagged(request, out)


@router.get("/{post_id}/versions", operation_id="list_post_versions", summary="What a post said before")
async def list_versions(services: ServicesDep, caller: CallerDep, post_id: PostId) -> Items[VersionOut]:
    """The newest first, at most a hundred; the first is what it says now."""
    found = await PostViews(services.database).versions(caller.tenant_id, post_id)
    return Items(items=[VersionOut.model_validate(one) for one in _of_a_post(found)])


@router.get("/{post_id}/counters", operation_id="list_post_counters", summary="Its counters over time")
async def list_counters(services: ServicesDep, caller: CallerDep, post_id: PostId) -> Items[Counted]:
    """Views, forwards, replies and reactions, whenever they changed, the oldest first; the last is how they are now."""
    return Items(items=_of_a_post(await PostViews(services.database).counters(caller.tenant_id, post_id)))


@router.get("/{post_id}/trace", operation_id="get_post_trace", summary="How it came here")
async def get_trace(services: ServicesDep, caller: CallerDep, post_id: PostId) -> Items[StepOut]:
    """Each stage that it went through, from its capture to the indexes, with its time and what came of it."""
    found = await PostViews(services.database).path(caller.tenant_id, post_id)
    return Items(items=[StepOut.model_validate(one) for one in _of_a_post(found)])


def _of_a_post(found: list[Value]) -> list[Value]:
    """A post that the caller sees has at least one of each."""
    if not found:
        raise not_found("post")
    return found


@router.get("/{post_id}/similar", operation_id="list_similar_posts", summary="Posts near in meaning")
async def list_similar(
    services: ServicesDep, caller: CallerDep, post_id: PostId, _: ViewDep, limit: Limit = 10
) -> Items[NearOut]:
    """Of your channels, the nearest first. `503` while the vector index is away."""
    hits = await services.search.similar(caller.tenant_id, post_id, limit=limit)
    return Items(items=[_near(hit.post, hit.score) for hit in hits])


@router.get("/{post_id}/neighbours", operation_id="list_post_neighbours", summary="Around it in the graph")
async def list_neighbours(
    walking: GraphWalkDep, caller: CallerDep, post_id: PostId, _: ViewDep, limit: Limit = 10
) -> NeighboursOut:
    """Posts about the same, and the other forwards of the same origin. `503` while the graph is away."""
    around = await walking.around_post(caller.tenant_id, post_id, limit=limit)
    return NeighboursOut(
        near=[_near(one.post, one.score, one.shared) for one in around.near],
        forwards=[_near(post) for post in around.forwards],
    )


def _near(post: Shown, score: float | None = None, shared: Sequence[str] = ()) -> NearOut:
    return NearOut(
        id=post.post_id,
        channel=ChannelOut(id=post.channel_id, title=post.channel_title, username=post.channel_username),
        url=post.url,
        posted_at=post.posted_at,
        text=post.text[:500],
        score=score,
        shared=list(shared),
    )
