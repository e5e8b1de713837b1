"""Digests: what you want to read and when, what came out, and what would come out now. Each belongs to its user."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from telegram_assistant.http.api.models.digests import (
    DIGEST,
    ISSUE,
    ContentOut,
    DigestOut,
    DigestsOut,
    IssueOut,
    IssuesOut,
    content_values,
)
from telegram_assistant.http.cursor import LONGEST, read_place, write_place
from telegram_assistant.http.dependencies import DigestDep
from telegram_assistant.http.digest_form import DigestIn
from telegram_assistant.http.etag import etagged

router = APIRouter(prefix="/digests", tags=["digests"])

DigestId = Annotated[UUID, Path(description="The digest's id.", examples=[DIGEST])]
IssueId = Annotated[UUID, Path(description="The issue's id.", examples=[ISSUE])]


@router.get("", operation_id="list_digests", summary="Your digests")
async def list_digests(room: DigestDep) -> DigestsOut:
    return DigestsOut(items=[DigestOut.of(one, room.feed(one)) for one in await room.all()])


@router.post("", operation_id="add_digest", summary="Ask for a digest", status_code=201)
async def add_digest(room: DigestDep, wanted: DigestIn) -> DigestOut:
    """It comes at its time in its zone, also when clocks change. A time that a day does not have is the first moment
    after it; one that a day has twice is the first."""
    made = await room.add(wanted.wish())
    return DigestOut.of(made, room.feed(made))


@router.get("/{digest_id}", operation_id="get_digest", summary="A digest", response_model=DigestOut)
async def get_digest(request: Request, room: DigestDep, digest_id: DigestId) -> Response:
    digest = await room.get(digest_id)
    return etagged(request, DigestOut.of(digest, room.feed(digest)))


@router.put("/{digest_id}", operation_id="change_digest", summary="Change a digest")
async def change_digest(room: DigestDep, digest_id: DigestId, wanted: DigestIn) -> DigestOut:
    """What is left out gets its default."""
    digest = await room.change(await room.get(digest_id), wanted.wish())
    return DigestOut.of(digest, room.feed(digest))


@router.delete("/{digest_id}", operation_id="remove_digest", summary="Remove a digest", status_code=204)
async def remove_digest(room: DigestDep, digest_id: DigestId) -> None:
    """Its issues go with it."""
    await room.digests.remove(await room.get(digest_id))


@router.post("/{digest_id}/feed", operation_id="renew_digest_feed", summary="Give the feed another address")
async def renew_feed(room: DigestDep, digest_id: DigestId) -> DigestOut:
    """The old one stops working."""
    await room.digests.new_feed(await room.get(digest_id))
    digest = await room.get(digest_id)
    return DigestOut.of(digest, room.feed(digest))


@router.post("/{digest_id}/preview", operation_id="preview_digest", summary="What it would say now")
async def preview_digest(room: DigestDep, digest_id: DigestId) -> ContentOut:
    """Nothing is saved or sent."""
    digest = await room.get(digest_id)
    since, until, content = await room.maker.preview(digest.tenant_id, digest.user_id, digest.wish, digest_id=digest.id)
    return ContentOut(**content_values(content, (), since, until))


@router.get("/{digest_id}/issues", operation_id="list_digest_issues", summary="What came out, the newest first")
async def list_issues(
    room: DigestDep,
    digest_id: DigestId,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    cursor: Annotated[str | None, Query(max_length=LONGEST)] = None,
) -> IssuesOut:
    digest = await room.get(digest_id)
    before = read_place(cursor)[0] if cursor is not None else None
    found = await room.issues.page(digest.tenant_id, digest.id, limit=limit + 1, before=before)
    items = found[:limit]
    sendings = await room.issues.sendings(digest.tenant_id, [one.id for one in items])
    return IssuesOut(
        items=[IssueOut.of(one, await room.maker.show(one), sendings) for one in items],
        next=write_place(items[-1].scheduled_for) if len(found) > limit else None,
    )


@router.get(
    "/{digest_id}/issues/{issue_id}",
    operation_id="get_digest_issue",
    summary="One issue, with what became of its posts",
    response_model=IssueOut,
)
async def get_issue(request: Request, room: DigestDep, digest_id: DigestId, issue_id: IssueId) -> Response:
    _, issue = await room.issue(digest_id, issue_id)
    sendings = await room.issues.sendings(issue.tenant_id, [issue.id])
    return etagged(request, IssueOut.of(issue, await room.maker.show(issue), sendings))


@router.post(
    "/{digest_id}/issues/{issue_id}/send", operation_id="send_digest_issue", summary="Send again what was given up"
)
async def send_issue(room: DigestDep, digest_id: DigestId, issue_id: IssueId) -> IssueOut:
    """Where nothing was given up, nothing happens."""
    _, issue = await room.issue(digest_id, issue_id)
    await room.send_again(issue)
    sendings = await room.issues.sendings(issue.tenant_id, [issue.id])
    return IssueOut.of(issue, await room.maker.show(issue), sendings)
