"""Digests: what you want to read and when, what came out, and what would come out now. Each belongs to its user."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from telegram_assistant.domain.digests import (
    Change,
    Cited,
    Content,
    Correction,
    Digest,
    Frequency,
    Issue,
    Language,
    Way,
)
from telegram_assistant.http.answers import Cursor, FromValue, Items, Page, etagged, example, read_place, write_place
from telegram_assistant.http.dependencies import DigestDep
from telegram_assistant.services.digests import DIGEST_EXAMPLE, DigestActions, DigestIn

DIGEST = "2f1acc6c-3a4e-4b8e-9d41-8b8f3c5f0a10"
ISSUE = "9a3f0d0e-55b4-4f0e-8f0c-3e7a6f2f7c11"


class DigestOut(BaseModel):
    """A digest of yours."""

    model_config = example(
        id=DIGEST,
        **DIGEST_EXAMPLE,
        weekday=0,
        day=1,
        enabled=True,
        next_at="2026-11-16T05:30:00Z",
        feed=f"/feeds/{DIGEST}/4102444800.x7Yq",
        trouble="",
        created_at="2026-11-15T10:00:00Z",
    )

    id: UUID
    name: str
    topics: list[str]
    channels: list[int]
    frequency: Frequency
    weekday: int
    day: int
    time: str
    zone: str
    language: Language
    max_stories: int
    ads: bool
    deliveries: list[Way]
    enabled: bool
    next_at: datetime | None
    feed: str = Field(description="Path of the feed (Atom). It is enough to read the digest.")
    trouble: str = Field(description="Why it is not made any more; empty: it is.")
    created_at: datetime


class SentenceOut(FromValue):
    """What is said; `sources` are places in the list of sources, from 0, at least one."""

    text: str = Field(description="Empty: its posts were deleted, and their words with them.")
    sources: list[int] = Field(min_length=1)


class StoryOut(FromValue):
    """One story."""

    sentences: list[SentenceOut]
    posts: list[UUID] = Field(description="All posts that tell it.")
    channels: int
    topics: list[str] = Field(description="Which of your topics it fits.")
    score: float
    section: str = Field(description="Its heading, in the language of the digest; empty in issues that have none.")


class CorrectionOut(FromValue):
    """A cited post that is not what it was."""

    source: int
    change: Change
    at: datetime | None
    text: str = Field(description="What an edited post says now.")


class BehindOut(FromValue):
    """A channel that was not up to date."""

    channel_id: int
    channel: str
    reason: str = Field(description="holes, stale, failing or new.")
    unknown: int
    since: datetime | None
    error: str


class CoverageOut(FromValue):
    """What was read, and what was left out."""

    channels: int
    posts: int
    fitting: int
    stories: int
    told: int
    over_limit: int
    told_before: int
    ads: int
    wordless: int
    capped: int
    gone: int
    behind: list[BehindOut]


class SendingOut(FromValue):
    """How far it is on its way."""

    kind: str
    state: Literal["waiting", "delivered", "dead"]
    attempts: int
    delivered_at: datetime | None
    error: str


class ContentOut(FromValue):
    """An issue: stories, their sources, what was read, and corrections."""

    since: datetime
    until: datetime
    stories: list[StoryOut]
    sources: list[Cited]
    coverage: CoverageOut
    corrections: list[CorrectionOut]
    written_by: str = Field(description="The language model; empty: sentences of the posts themselves.")
    without_model: str = Field(description="Why the model did not write it, if there is one.")


class IssueOut(ContentOut):
    """An issue that came out."""

    id: UUID
    digest_id: UUID
    scheduled_for: datetime
    built_at: datetime | None
    deliveries: list[SendingOut]


router = APIRouter(prefix="/digests", tags=["digests"])

DigestId = Annotated[UUID, Path(description="The digest's id.", examples=[DIGEST])]
IssueId = Annotated[UUID, Path(description="The issue's id.", examples=[ISSUE])]


@router.get("", operation_id="list_digests", summary="Your digests")
async def list_digests(room: DigestDep) -> Items[DigestOut]:
    return Items(items=[_digest(room, one) for one in await room.all()])


@router.post("", operation_id="add_digest", summary="Ask for a digest", status_code=201)
async def add_digest(room: DigestDep, wanted: DigestIn) -> DigestOut:
    """It comes at its time in its zone, also when clocks change. A time that a day does not have is the first moment
    after it; one that a day has twice is the first."""
    return _digest(room, await room.add(wanted.wish()))


@router.post("/preview", operation_id="preview_new_digest", summary="What a digest would say now")
async def preview_new_digest(
    room: DigestDep,
    wanted: DigestIn,
    hours: Annotated[int | None, Query(ge=1, le=24 * 31, description="How far it looks back.")] = None,
) -> ContentOut:
    """Nothing is saved or sent. Without `hours` it looks back as far as its frequency says."""
    since, until, content = await room.preview(wanted.wish(), timedelta(hours=hours) if hours else None)
    return ContentOut.model_validate(_content(content, (), since, until))


@router.get("/{digest_id}", operation_id="get_digest", summary="A digest", response_model=DigestOut)
async def get_digest(request: Request, room: DigestDep, digest_id: DigestId) -> Response:
    return etagged(request, _digest(room, await room.get(digest_id)))


@router.put("/{digest_id}", operation_id="change_digest", summary="Change a digest")
async def change_digest(room: DigestDep, digest_id: DigestId, wanted: DigestIn) -> DigestOut:
    """What is left out gets its default."""
    return _digest(room, await room.change(await room.get(digest_id), wanted.wish()))


@router.delete("/{digest_id}", operation_id="remove_digest", summary="Remove a digest", status_code=204)
async def remove_digest(room: DigestDep, digest_id: DigestId) -> None:
    """Its issues go with it."""
    await room.digests.remove(await room.get(digest_id))


@router.post("/{digest_id}/feed", operation_id="renew_digest_feed", summary="Give the feed another address")
async def renew_feed(room: DigestDep, digest_id: DigestId) -> DigestOut:
    """The old one stops working."""
    await room.digests.new_feed(await room.get(digest_id))
    return _digest(room, await room.get(digest_id))


@router.post("/{digest_id}/preview", operation_id="preview_digest", summary="What it would say now")
async def preview_digest(room: DigestDep, digest_id: DigestId) -> ContentOut:
    """Nothing is saved or sent."""
    digest = await room.get(digest_id)
    since, until, content = await room.maker.preview(digest.tenant_id, digest.user_id, digest.wish, digest_id=digest.id)
    return ContentOut.model_validate(_content(content, (), since, until))


@router.get("/{digest_id}/issues", operation_id="list_digest_issues", summary="What came out, the newest first")
async def list_issues(
    room: DigestDep,
    digest_id: DigestId,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    cursor: Cursor = None,
) -> Page[IssueOut]:
    digest = await room.get(digest_id)
    before = read_place(cursor)[0] if cursor is not None else None
    found = await room.issues.page(digest.tenant_id, digest.id, limit=limit + 1, before=before)
    items = await _issues(room, *found[:limit])
    return Page(items=items, next=write_place(items[-1].scheduled_for) if len(found) > limit else None)


@router.get(
    "/{digest_id}/issues/{issue_id}",
    operation_id="get_digest_issue",
    summary="One issue, with what became of its posts",
    response_model=IssueOut,
)
async def get_issue(request: Request, room: DigestDep, digest_id: DigestId, issue_id: IssueId) -> Response:
    _, issue = await room.issue(digest_id, issue_id)
    [shown] = await _issues(room, issue)
    return etagged(request, shown)


@router.post(
    "/{digest_id}/issues/{issue_id}/send", operation_id="send_digest_issue", summary="Send again what was given up"
)
async def send_issue(room: DigestDep, digest_id: DigestId, issue_id: IssueId) -> IssueOut:
    """Where nothing was given up, nothing happens."""
    _, issue = await room.issue(digest_id, issue_id)
    await room.send_again(issue)
    [shown] = await _issues(room, issue)
    return shown


def _digest(room: DigestActions, digest: Digest) -> DigestOut:
    wish, schedule = digest.wish, digest.wish.schedule
    return DigestOut(
        id=digest.id,
        name=wish.name,
        topics=list(wish.topics),
        channels=list(wish.channels),
        frequency=schedule.frequency,
        weekday=schedule.weekday,
        day=schedule.day,
        time=f"{schedule.minute // 60:02}:{schedule.minute % 60:02}",
        zone=schedule.zone,
        language=wish.language,
        max_stories=wish.most,
        ads=wish.ads,
        deliveries=list(wish.ways),
        enabled=wish.enabled,
        next_at=digest.next_at if wish.enabled else None,
        feed=room.feed(digest),
        trouble=digest.trouble,
        created_at=digest.created_at,
    )


async def _issues(room: DigestActions, *issues: Issue) -> list[IssueOut]:
    sendings = await room.issues.sendings(room.caller.tenant_id, [one.id for one in issues])
    made = []
    for issue in issues:
        shown = await room.maker.show(issue)
        values = {
            "id": issue.id,
            "digest_id": issue.digest_id,
            "scheduled_for": issue.scheduled_for,
            "built_at": issue.built_at,
            "deliveries": [one for one in sendings if one.issue_id == issue.id],
            **_content(shown.content, shown.corrections, issue.since, issue.until),
        }
        made.append(IssueOut.model_validate(values))
    return made


def _content(content: Content, found: tuple[Correction, ...], since: datetime, until: datetime) -> dict[str, object]:
    return {
        "since": since,
        "until": until,
        "stories": content.stories,
        "sources": content.cited,
        "coverage": content.coverage,
        "corrections": found,
        "written_by": content.written_by,
        "without_model": content.without_model,
    }
