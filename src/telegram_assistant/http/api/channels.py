"""Channels: what is watched, how completely, when it is looked at next, and asking for more."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from telegram_assistant.domain.channel import MAX_CHANNEL_ID, SENTENCES
from telegram_assistant.domain.channel_lists import LONGEST_GROUP, LONGEST_LIST, as_csv, as_opml, clean_group
from telegram_assistant.domain.text import clean_text
from telegram_assistant.http.answers import (
    Cursor,
    FromValue,
    Items,
    Page,
    etagged,
    example,
    page_of,
    read_cursor,
    write_cursor,
)
from telegram_assistant.http.dependencies import AdminChannelsDep, CallerDep, ChannelsDep
from telegram_assistant.services.channels import FIRST_YEAR, LONGEST_REFERENCE, Bulk, Outcome
from telegram_assistant.services.problems import not_found
from telegram_assistant.stores.postgres.watched_channels import Watched

MOST_CHANGED = 1_000

CHANNEL_EXAMPLE: dict[str, Any] = {
    "id": 1_006_503_122,
    "username": "durov",
    "title": "Du Rove's Channel",
    "about": "Thoughts from the CEO of Telegram.",
    "is_group": False,
    "private": False,
    "subscribers": 11_000_000,
    "status": "active",
    "paused_at": None,
    "priority": 0,
    "timezone": "Europe/Moscow",
    "group": "news",
    "captured": 341,
    "unknown": 0,
    "proven_up_to": 402,
    "percent": 100.0,
    "filling": False,
    "hidden_up_to": 0,
    "protected": False,
    "last_post_at": "2026-11-14T09:30:00Z",
    "last_visit_at": "2026-11-15T08:00:04Z",
    "next_visit_at": "2026-11-15T08:21:30Z",
    "failures": 0,
    "error": None,
    "what_to_do": None,
}


WhatToDo = Annotated[str | None, BeforeValidator(lambda advice: SENTENCES[advice] or None)]


class ChannelAnswer(FromValue):
    """A channel that you watch, and how completely it is known."""

    model_config = example(**CHANNEL_EXAMPLE)

    id: int = Field(description="Telegram's own id, without -100.")
    username: str | None
    title: str
    about: str
    is_group: bool
    private: bool = Field(description="Only your tenant sees it.")
    subscribers: int | None
    status: Literal["active", "dead", "paused"] = Field(
        description="dead: it was given up after many failures; paused: by an admin of yours."
    )
    paused_at: datetime | None = Field(description="Since when it is paused.")
    priority: int
    timezone: str
    group: str = Field(description="In which your tenant keeps it; empty: in none.")
    captured: int = Field(description="Posts that are stored.")
    unknown: int = Field(description="Requested message ids that are neither captured nor proven empty yet.")
    proven_up_to: int = Field(description="Every requested message id up to this one is known.")
    percent: float = Field(description="Known share of the requested ids; 100 only when nothing is unknown.")
    filling: bool = Field(description="Older posts are on their way.")
    hidden_up_to: int = Field(
        description="A group hides what was said before our accounts joined: up to this message id. 0: nothing."
    )
    protected: bool = Field(description="Its owner forbids to forward and save its content (Telegram's noforwards).")
    last_post_at: datetime | None
    last_visit_at: datetime | None = Field(
        validation_alias="last_success_at", description="The last one that succeeded."
    )
    next_visit_at: datetime | None
    failures: int = Field(description="Visits in a row that failed.")
    error: str | None = Field(validation_alias="last_error")
    what_to_do: WhatToDo = Field(validation_alias="advice")


class RequestAnswer(FromValue):
    """Your wish to watch a channel, until Telegram has confirmed that it exists."""

    model_config = example(
        id=12, reference="@durov", state="requested", channel_id=None, attempts=0, error=None, what_to_do=None
    )

    id: int
    reference: str
    state: Literal["requested", "failed", "watched"] = Field(description="failed: not yet; it is tried again later.")
    channel_id: int | None
    attempts: int
    error: str | None = Field(validation_alias="last_error")
    what_to_do: WhatToDo = Field(validation_alias="advice")


class PreviewAnswer(BaseModel):
    """What is known of a channel before you watch it."""

    reference: str = Field(description="As we write it.")
    state: Literal["watched", "requested", "failed", "known", "unknown"] = Field(
        description="known: its title is known here already; unknown: Telegram is asked when you add it."
    )
    channel_id: int | None = None
    username: str | None = None
    title: str | None = None
    about: str | None = None
    subscribers: int | None = None
    request: RequestAnswer | None = None


class NewChannel(BaseModel):
    """Which channel to watch."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reference": "@durov"}]})

    reference: str = Field(min_length=1, max_length=LONGEST_REFERENCE, description="@name, a t.me link, or an id.")


class ChannelList(BaseModel):
    """Names and links one after the other, or the text of an OPML or CSV file."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "@durov\nhttps://t.me/telegram"}]})

    text: str = Field(min_length=1, max_length=LONGEST_LIST)


class ListedAnswer(FromValue):
    """An entry of a list, and what became of it."""

    model_config = example(text="t.me/durov", reference="@durov", outcome="added", error=None)

    text: str = Field(validation_alias=AliasPath("entry", "text"))
    reference: str | None = Field(validation_alias=AliasPath("entry", "reference"))
    outcome: Outcome = Field(description="waiting: it was asked for before; refused: `error` says why.")
    error: str | None = Field(validation_alias=AliasPath("entry", "error"))


Group = Annotated[str, Field(max_length=LONGEST_GROUP)]


class ManyChannels(BaseModel):
    """Channels that are changed together."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [1_006_503_122], "action": "remove"}]})

    ids: list[Annotated[int, Field(ge=1, le=MAX_CHANNEL_ID)]] = Field(min_length=1, max_length=MOST_CHANGED)
    action: Bulk = Field(
        description="remove, revive (try those again that were given up), pause, resume, priority, or group."
    )
    priority: int | None = Field(None, ge=-1000, le=1000, description="For the action priority.")
    group: Group | None = Field(None, description="For the action group; empty: they leave theirs.")


class ChangedAnswer(FromValue):
    """One of them, and what became of it."""

    model_config = example(channel_id=1_006_503_122, error=None)

    channel_id: int
    error: str | None = Field(description="Why it was not changed.")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError("is not the name of a time zone such as Europe/Moscow") from exc
    return name


class ChannelChange(BaseModel):
    """What an admin changes; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"priority": 10}]})

    priority: int | None = Field(None, ge=-1000, le=1000, description="Higher is visited first, and more often.")
    timezone: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_zone)] | None = Field(
        None, description="Where the channel lives: its nights and weekends are quiet."
    )
    group: Group | None = Field(None, description="In which your tenant keeps it; empty: in none.")


class HistoryRequest(BaseModel):
    """How much of the history to fetch: from a moment on, or all of it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"since": "2024-01-01T00:00:00Z"}, {"all": True}]})

    since: datetime | None = None
    all: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> HistoryRequest:
        if (self.since is not None) == self.all:
            raise ValueError("say either since or all")
        if self.since is not None and (self.since.tzinfo is None or self.since.year < FIRST_YEAR):
            raise ValueError(f"since needs a time zone, and a year from {FIRST_YEAR} on")
        return self


class VisitAnswer(BaseModel):
    """What was asked for, and how to see it happen."""

    channel_id: int
    next_visit_at: datetime | None
    follow: str = Field(description="Read this to see how far it is.")


MOST = 200
MOST_REQUESTS = 200
MOST_EXPORTED = 100_000


class Form(StrEnum):
    """Of an exported list."""

    OPML = "opml"
    CSV = "csv"


router = APIRouter(prefix="/channels", tags=["channels"])


ChannelId = Annotated[int, Path(ge=1, le=MAX_CHANNEL_ID, description="Telegram's id, without -100.")]
RequestId = Annotated[int, Path(ge=1, lt=2**63)]


@router.get("", operation_id="list_channels", summary="The channels that you watch")
async def list_channels(
    desk: ChannelsDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    cursor: Cursor = None,
    *,
    q: Annotated[str, Query(max_length=200, description="Part of a title or a name.")] = "",
    group: Annotated[str, Query(max_length=LONGEST_GROUP, description="Only what your tenant keeps in it.")] = "",
) -> Page[ChannelAnswer]:
    """By title."""
    after: tuple[str, int] | None = None
    if cursor is not None:
        title, number = read_cursor(cursor, str, int)
        after = str(title), int(number)
    words, group = clean_text(q).strip(), clean_group(group)
    found = await desk.watched.page(caller.tenant_id, limit=limit + 1, after=after, words=words, group=group)
    return page_of(found, limit, ChannelAnswer.model_validate, lambda last: write_cursor(last.title, last.id))


@router.post("", status_code=202, operation_id="add_channel", summary="Watch a channel")
async def add_channel(desk: ChannelsDep, wish: NewChannel, response: Response) -> RequestAnswer:
    """Telegram is asked soon; read the request to see what became of it."""
    request = await desk.add(wish.reference)
    response.headers["Location"] = f"/api/v1/channels/requests/{request.id}"
    return RequestAnswer.model_validate(request)


@router.post("/list", status_code=202, operation_id="add_channels", summary="Watch the channels of a list")
async def add_channels(desk: ChannelsDep, wish: ChannelList) -> Items[ListedAnswer]:
    """Each entry has its own outcome. Telegram is asked one by one; the open requests show how far it is."""
    return Items(items=[ListedAnswer.model_validate(one) for one in await desk.add_list(wish.text)])


@router.post("/many", operation_id="change_channels", summary="Change many channels at once (admins)")
async def change_channels(desk: AdminChannelsDep, many: ManyChannels) -> Items[ChangedAnswer]:
    """Each has its own outcome."""
    done = await desk.change_many(many.ids, many.action, priority=many.priority, group=many.group)
    return Items(items=[ChangedAnswer.model_validate(one) for one in done])


@router.get("/export", operation_id="export_channels", summary="Your channels as OPML or CSV")
async def export_channels(
    desk: ChannelsDep, caller: CallerDep, form: Annotated[Form, Query(alias="format")]
) -> Response:
    """Adding this list again, here or elsewhere, watches the same channels."""
    found = await desk.watched.page(caller.tenant_id, limit=MOST_EXPORTED)
    if form is Form.OPML:
        return _file(as_opml(found, "Telegram Assistant"), "text/x-opml", "channels.opml")
    return _file(as_csv(found), "text/csv", "channels.csv")


def _file(text: str, media_type: str, name: str) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(text, media_type=media_type, headers={"Content-Disposition": disposition})


@router.get("/preview", operation_id="preview_channel", summary="What is known of a channel before you watch it")
async def preview_channel(
    desk: ChannelsDep, reference: Annotated[str, Query(min_length=1, max_length=LONGEST_REFERENCE)]
) -> PreviewAnswer:
    found = await desk.preview(reference)
    known = found.watched or found.known
    state = "watched" if found.watched else found.request.state if found.request else None
    return PreviewAnswer(
        reference=found.reference,
        state=state or ("known" if known else "unknown"),
        channel_id=found.watched.id if found.watched else None,
        username=known.username if known else None,
        title=known.title if known else None,
        about=known.about if known else None,
        subscribers=known.subscribers if known else None,
        request=RequestAnswer.model_validate(found.request) if found.request else None,
    )


@router.get("/requests", operation_id="list_channel_requests", summary="Channels that are still being looked for")
async def list_requests(desk: ChannelsDep, caller: CallerDep) -> Items[RequestAnswer]:
    """The newest first."""
    found = await desk.watched.requests(caller.tenant_id, limit=MOST_REQUESTS)
    return Items(items=[RequestAnswer.model_validate(request) for request in found])


@router.get("/requests/{request_id}", operation_id="get_channel_request", summary="What became of a wish")
async def get_request(desk: ChannelsDep, caller: CallerDep, request_id: RequestId) -> RequestAnswer:
    found = await desk.watched.request(caller.tenant_id, number=request_id)
    if found is None:
        raise not_found("request")
    return RequestAnswer.model_validate(found)


@router.delete(
    "/requests/{request_id}", status_code=204, operation_id="drop_channel_request", summary="Take a wish back"
)
async def drop_request(desk: ChannelsDep, request_id: RequestId) -> None:
    """Of another user: admins."""
    if not await desk.drop_request(request_id):
        raise not_found("open request")


@router.get("/{channel_id}", operation_id="get_channel", summary="One channel", response_model=ChannelAnswer)
async def get_channel(request: Request, desk: ChannelsDep, channel_id: ChannelId) -> Response:
    return etagged(request, ChannelAnswer.model_validate(await desk.get(channel_id)))


@router.patch("/{channel_id}", operation_id="change_channel", summary="Change priority, time zone or group (admins)")
async def change_channel(desk: AdminChannelsDep, channel_id: ChannelId, change: ChannelChange) -> ChannelAnswer:
    changed = await desk.change(channel_id, priority=change.priority, timezone=change.timezone, group=change.group)
    return ChannelAnswer.model_validate(changed)


@router.delete(
    "/{channel_id}", status_code=204, operation_id="remove_channel", summary="Stop watching a channel (admins)"
)
async def remove_channel(desk: AdminChannelsDep, channel_id: ChannelId) -> None:
    """Your tenant does not see it any more. What was captured stays for others who watch it, or add it again."""
    await desk.remove(channel_id)


@router.post("/{channel_id}/parse", status_code=202, operation_id="parse_channel", summary="Visit a channel now")
async def parse_channel(desk: ChannelsDep, channel_id: ChannelId) -> VisitAnswer:
    return _asked(await desk.visit(channel_id), "")


@router.post(
    "/{channel_id}/revive",
    status_code=202,
    operation_id="revive_channel",
    summary="Try a given-up channel again (admins)",
)
async def revive_channel(desk: AdminChannelsDep, channel_id: ChannelId) -> VisitAnswer:
    return _asked(await desk.revive(channel_id), "")


@router.post("/{channel_id}/backfill", status_code=202, operation_id="backfill_channel", summary="Ask for older posts")
async def backfill_channel(desk: ChannelsDep, channel_id: ChannelId, history: HistoryRequest) -> VisitAnswer:
    """What is older than 31 days: admins."""
    return _asked(await desk.backfill(channel_id, history.since), "/ledger")


def _asked(channel: Watched, follow: str) -> VisitAnswer:
    return VisitAnswer(
        channel_id=channel.id,
        next_visit_at=channel.next_visit_at,
        follow=f"/api/v1/channels/{channel.id}{follow}",
    )
