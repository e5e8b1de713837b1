"""Channels: what is watched, how completely, when it is looked at next, and asking for more."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from telegram_assistant.domain.channel import MAX_CHANNEL_ID
from telegram_assistant.domain.text import clean_text
from telegram_assistant.http.api.models.channels import (
    ChannelAnswer,
    ChannelChange,
    ChannelPage,
    ExplainAnswer,
    HistoryRequest,
    LedgerAnswer,
    NewChannel,
    PreviewAnswer,
    RequestAnswer,
    RequestList,
    RhythmAnswer,
    VisitAnswer,
    state_of,
)
from telegram_assistant.http.auth import AdminDep, CallerDep, ServicesDep
from telegram_assistant.http.cursor import LONGEST, read_cursor, write_cursor
from telegram_assistant.http.etag import etagged
from telegram_assistant.services.channels import LONGEST_REFERENCE, ChannelDesk
from telegram_assistant.services.problems import not_found
from telegram_assistant.stores.postgres.watched_channels import Watched

MOST = 200
MOST_REQUESTS = 200

router = APIRouter(prefix="/channels", tags=["channels"])


def _desk(services: ServicesDep, caller: CallerDep) -> ChannelDesk:
    return ChannelDesk(services, caller)


DeskDep = Annotated[ChannelDesk, Depends(_desk)]
ChannelId = Annotated[int, Path(ge=1, le=MAX_CHANNEL_ID, description="Telegram's id, without -100.")]
RequestId = Annotated[int, Path(ge=1, lt=2**63)]


@router.get("", operation_id="list_channels", summary="The channels that you watch")
async def list_channels(
    desk: DeskDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    cursor: Annotated[str | None, Query(max_length=LONGEST)] = None,
    q: Annotated[str, Query(max_length=200, description="Part of a title or a name.")] = "",
) -> ChannelPage:
    after: tuple[str, int] | None = None
    if cursor is not None:
        title, number = read_cursor(cursor, str, int)
        after = str(title), int(number)
    found = await desk.watched.page(caller.tenant_id, limit=limit + 1, after=after, words=clean_text(q).strip())
    last = found[limit - 1] if len(found) > limit else None
    return ChannelPage(
        items=[ChannelAnswer.of(channel) for channel in found[:limit]],
        next=write_cursor(last.title, last.id) if last else None,
    )


@router.post("", status_code=202, operation_id="add_channel", summary="Watch a channel")
async def add_channel(desk: DeskDep, wish: NewChannel, response: Response) -> RequestAnswer:
    """Telegram is asked soon; read the request to see what became of it."""
    request = await desk.add(wish.reference)
    response.headers["Location"] = f"/api/v1/channels/requests/{request.id}"
    return RequestAnswer.of(request)


@router.get("/preview", operation_id="preview_channel", summary="What is known of a channel before you watch it")
async def preview_channel(
    desk: DeskDep, reference: Annotated[str, Query(min_length=1, max_length=LONGEST_REFERENCE)]
) -> PreviewAnswer:
    found = await desk.preview(reference)
    known = found.watched or found.known
    state = "watched" if found.watched else state_of(found.request) if found.request else None
    return PreviewAnswer(
        reference=found.reference,
        state=state or ("known" if known else "unknown"),
        channel_id=found.watched.id if found.watched else None,
        username=known.username if known else None,
        title=known.title if known else None,
        about=known.about if known else None,
        subscribers=known.subscribers if known else None,
        request=RequestAnswer.of(found.request) if found.request else None,
    )


@router.get("/requests", operation_id="list_channel_requests", summary="Channels that are still being looked for")
async def list_requests(desk: DeskDep, caller: CallerDep) -> RequestList:
    found = await desk.watched.requests(caller.tenant_id, limit=MOST_REQUESTS)
    return RequestList(items=[RequestAnswer.of(request) for request in found])


@router.get("/requests/{request_id}", operation_id="get_channel_request", summary="What became of a wish")
async def get_request(desk: DeskDep, caller: CallerDep, request_id: RequestId) -> RequestAnswer:
    found = await desk.watched.request(caller.tenant_id, number=request_id)
    if found is None:
        raise not_found("request")
    return RequestAnswer.of(found)


@router.delete(
    "/requests/{request_id}", status_code=204, operation_id="drop_channel_request", summary="Take a wish back"
)
async def drop_request(desk: DeskDep, request_id: RequestId) -> None:
    """Of another user: admins."""
    if not await desk.drop_request(request_id):
        raise not_found("open request")


@router.get("/{channel_id}", operation_id="get_channel", summary="One channel", response_model=ChannelAnswer)
async def get_channel(request: Request, desk: DeskDep, channel_id: ChannelId) -> Response:
    return etagged(request, ChannelAnswer.of(await desk.get(channel_id)))


@router.patch("/{channel_id}", operation_id="change_channel", summary="Change priority or time zone (admins)")
async def change_channel(
    services: ServicesDep, admin: AdminDep, channel_id: ChannelId, change: ChannelChange
) -> ChannelAnswer:
    desk = ChannelDesk(services, admin)
    return ChannelAnswer.of(await desk.change(channel_id, priority=change.priority, timezone=change.timezone))


@router.delete(
    "/{channel_id}", status_code=204, operation_id="remove_channel", summary="Stop watching a channel (admins)"
)
async def remove_channel(services: ServicesDep, admin: AdminDep, channel_id: ChannelId) -> None:
    """Nobody of your tenant sees it any more. What was captured stays for whoever else watches it, or adds it again."""
    await ChannelDesk(services, admin).remove(channel_id)


@router.post("/{channel_id}/parse", status_code=202, operation_id="parse_channel", summary="Visit a channel now")
async def parse_channel(desk: DeskDep, channel_id: ChannelId) -> VisitAnswer:
    return _asked(await desk.visit(channel_id), "")


@router.post(
    "/{channel_id}/revive",
    status_code=202,
    operation_id="revive_channel",
    summary="Try a given-up channel again (admins)",
)
async def revive_channel(services: ServicesDep, admin: AdminDep, channel_id: ChannelId) -> VisitAnswer:
    return _asked(await ChannelDesk(services, admin).revive(channel_id), "")


@router.post("/{channel_id}/backfill", status_code=202, operation_id="backfill_channel", summary="Ask for older posts")
async def backfill_channel(desk: DeskDep, channel_id: ChannelId, history: HistoryRequest) -> VisitAnswer:
    """What is older than 31 days: admins."""
    return _asked(await desk.backfill(channel_id, history.since), "/ledger")


@router.get("/{channel_id}/ledger", operation_id="get_ledger", summary="What is known of every message id")
async def get_ledger(desk: DeskDep, channel_id: ChannelId) -> LedgerAnswer:
    return LedgerAnswer.of(await desk.ledger(channel_id))


@router.get("/{channel_id}/explain", operation_id="explain_channel", summary="When it is looked at next, and why")
async def explain_channel(desk: DeskDep, channel_id: ChannelId) -> ExplainAnswer:
    return ExplainAnswer.of(await desk.explain(channel_id))


@router.get("/{channel_id}/rhythm", operation_id="get_rhythm", summary="When a channel posts, by weekday and hour")
async def get_rhythm(desk: DeskDep, channel_id: ChannelId) -> RhythmAnswer:
    channel = await desk.get(channel_id)
    rhythm = await desk.rhythm(channel)
    return RhythmAnswer.of(channel, rhythm.since, rhythm.posts, rhythm.gap)


def _asked(channel: Watched, follow: str) -> VisitAnswer:
    return VisitAnswer(
        channel_id=channel.id,
        next_visit_at=channel.next_visit_at,
        follow=f"/api/v1/channels/{channel.id}{follow}",
    )
