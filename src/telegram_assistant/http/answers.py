"""What answers have in common: models made from our values, pages of a list, and a tag for what a client may keep.

Where a page ended is told as a cursor: opaque, and checked when a client sends it back.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import msgspec
from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from telegram_assistant.domain.alerting import Notice
from telegram_assistant.domain.saved_search import Alert
from telegram_assistant.services.problems import Problem
from telegram_assistant.stores.postgres.post_views import Place

Value = TypeVar("Value")
Item = TypeVar("Item")

LONGEST = 1000  # characters of a cursor
LONGEST_OF_SEARCH = 2_000  # of a search
Cursor = Annotated[str | None, Query(max_length=LONGEST)]
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class FromValue(BaseModel):
    """Made from a value of ours with the same names."""

    model_config = ConfigDict(from_attributes=True)


class Items(FromValue, Generic[Item]):
    """All of a list."""

    items: list[Item]


class Page(Items[Item], Generic[Item]):
    """Some of a list."""

    next: str | None = Field(description="Send it as `cursor` for the following page; null: this was the last.")


class CountOut(BaseModel):
    """How many it were."""

    count: int


def page_of(
    found: Sequence[Value], limit: int, show: Callable[[Value], Item], cursor: Callable[[Value], str]
) -> Page[Item]:
    """`found` has one more than `limit` where there is a following page."""
    following = cursor(found[limit - 1]) if len(found) > limit else None
    return Page(items=[show(one) for one in found[:limit]], next=following)


def example(**values: Any) -> ConfigDict:
    """For the reference of the API."""
    return ConfigDict(json_schema_extra={"examples": [values]})


def rounded(digits: int) -> AfterValidator:
    return AfterValidator(lambda number: round(number, digits))


def write_cursor(*parts: str | int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def read_cursor(cursor: str, *kinds: type) -> list[str | int]:
    """The parts again, of these kinds. Raises a problem for what no list of ours has given."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        parts = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=list[str | int])
    except (ValueError, binascii.Error, msgspec.MsgspecError) as exc:
        raise strange_cursor() from exc
    fitting = len(parts) == len(kinds) and all(type(part) is kind for part, kind in zip(parts, kinds, strict=False))
    if not fitting or any(isinstance(part, str) and "\0" in part for part in parts):
        raise strange_cursor()
    if any(isinstance(part, int) and not -(2**63) <= part < 2**63 for part in parts):
        raise strange_cursor()
    return parts


def write_place(moment: datetime, *ids: UUID) -> str:
    """Where a list ends that is sorted by time."""
    return write_cursor((moment - FIRST) // timedelta(microseconds=1), *map(str, ids))


def read_place(cursor: str, ids: int = 0) -> tuple[datetime, list[UUID]]:
    """What `write_place` made, with so many ids."""
    micros, *rest = read_cursor(cursor, int, *[str] * ids)
    try:
        moment = FIRST + timedelta(microseconds=int(micros))
        found = [UUID(str(one)) for one in rest]
    except (ValueError, OverflowError) as exc:
        raise strange_cursor() from exc
    if not FIRST < moment < LAST:
        raise strange_cursor()
    return moment, found


def write_found(alert: Alert) -> str:
    """Where a page of what a saved search found ends."""
    return write_place(alert.found_at, alert.search_id, alert.post_id)


def read_found(cursor: str) -> tuple[datetime, UUID, UUID]:
    moment, (search_id, post_id) = read_place(cursor, 2)
    return moment, search_id, post_id


def read_post(cursor: str) -> Place:
    moment, (post_id,) = read_place(cursor, 1)
    return Place(moment, post_id)


def write_notice(notice: Notice) -> str:
    """Where a page of notices ends."""
    return write_place(notice.opened_at, notice.id)


def read_notice(cursor: str) -> tuple[datetime, UUID]:
    moment, (last,) = read_place(cursor, 1)
    return moment, last


def strange_cursor() -> Problem:
    return Problem(422, "cursor: is none of this list; leave it out to begin at the start")


def etagged(request: Request, model: BaseModel) -> Response:
    """The model as JSON, or 304 when the client has it already."""
    body = model.model_dump_json().encode()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
