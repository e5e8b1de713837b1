"""Files of posts, for callers who see a post with them or have a signed address (G7); and the room that all takes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field

from telegram_assistant.domain.media_rules import HEAD, UNKNOWN, shown_kind
from telegram_assistant.domain.storage import Standing
from telegram_assistant.errors import Skip
from telegram_assistant.http.answers import FromValue, Items, example, rounded
from telegram_assistant.http.dependencies import CallerDep, ServicesDep, get_caller
from telegram_assistant.services.media_links import Thumbnails, is_signed
from telegram_assistant.services.problems import Problem, bad_request, forbidden, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.services.upkeep import count_storage, quota_of
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.post_views import KeptFile, PostFiles
from telegram_assistant.stores.postgres.storage import Storage, StorageUsage

LONGEST_NAME = 120
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)

router = APIRouter(prefix="/media", tags=["media"])

# The file is a stranger's: it runs nothing, loads nothing, and is nothing but what we found it to be.
HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, max-age=600",
    "Vary": "Authorization, Cookie",
}
Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, in hex.")]
IfNoneMatch = Annotated[str | None, Header(max_length=1000)]


class Width(IntEnum):
    """A few, so that the same pictures are asked for again."""

    SMALL = 160
    USUAL = 320
    LARGE = 640
    HUGE = 1280


async def get_file(
    request: Request,
    services: ServicesDep,
    sha256: Sha256,
    tenant: Annotated[UUID | None, Query(description="Of a signed address.")] = None,
    signature: Annotated[str | None, Query(max_length=200, description="Of a signed address.")] = None,
) -> KeptFile:
    """What is signed is looked up like everything else: a channel that was left shows nothing any more."""
    if signature is None:
        tenant_id = (await get_caller(request)).tenant_id
    elif tenant is None:
        raise bad_request("A signed address names its tenant: take it as it was given")
    elif not is_signed(services.signer, tenant, sha256, signature, now=services.clock()):
        raise forbidden("This address is not valid any more: ask for the post again")
    else:
        tenant_id = tenant
    file = await PostFiles(services.database).kept(tenant_id, sha256)
    if file is None:
        raise not_found("file")
    await Evictions(services.database).opened(sha256)
    return file


def thumbnails_of(services: ServicesDep) -> Thumbnails:
    if services.thumbnails is None:
        raise Problem(503, "Thumbnails are not made here", headers={"Retry-After": "30"})
    return services.thumbnails


FileDep = Annotated[KeptFile, Depends(get_file)]
ThumbnailsDep = Annotated[Thumbnails, Depends(thumbnails_of)]


@router.get(
    "/{sha256}",
    operation_id="get_media",
    summary="A file",
    response_class=Response,
    responses={
        200: {"content": {UNKNOWN: {}, "image/jpeg": {}, "video/mp4": {}}, "description": "The file."},
        206: {"description": "The part that was asked for with `Range`."},
        304: {"description": "You have it already."},
        416: {"description": "The file is shorter than that."},
    },
)
async def get_media(
    services: ServicesDep,
    sha256: Sha256,
    file: FileDep,
    *,
    asked: Annotated[str | None, Header(alias="Range", max_length=200)] = None,
    if_range: Annotated[str | None, Header(max_length=200)] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Pictures and MP4 by what they are, everything else to be saved. With your credential, or as the signed address
    that a post gives, which opens without one for an hour or two."""
    tag = f'"{sha256}"'
    if _knows(if_none_match, tag):
        return Response(status_code=304, headers={**HEADERS, "ETag": tag})
    mime = await _kind(services, file)
    part = _part(asked, file.size) if if_range in {None, tag} else None
    start, end = part or (0, file.size)
    headers = {**HEADERS, "ETag": tag, "Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    if mime == UNKNOWN:
        headers["Content-Disposition"] = _attachment(file)
    if not file.size:
        return Response(headers=headers, media_type=mime)
    body = services.media.stream(file.storage_key, part=part)
    return StreamingResponse(body, status_code=206 if part else 200, media_type=mime, headers=headers)


@router.get(
    "/{sha256}/thumbnail",
    operation_id="get_thumbnail",
    summary="A small copy of a picture",
    response_class=Response,
    responses={
        200: {"content": {"image/webp": {}}, "description": "The picture, as WebP."},
        304: {"description": "You have it already."},
    },
)
async def get_thumbnail(
    sha256: Sha256,
    file: FileDep,
    thumbnails: ThumbnailsDep,
    width: Annotated[Width, Query(description="At most so many pixels wide.")] = Width.USUAL,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Upright, the first frame, without what a camera wrote into it. `404` for what is no picture."""
    tag = f'"{sha256}-{width}"'
    headers = {**HEADERS, "ETag": tag}
    if _knows(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    try:
        content = await thumbnails.thumbnail(file, width)
    except Skip as exc:
        raise Problem(404, f"There is no preview of this file: {exc}") from exc
    return Response(content, media_type="image/webp", headers=headers)


async def _kind(services: Services, file: KeptFile) -> str:
    """By its first bytes."""
    if not file.size:
        return UNKNOWN
    try:
        first = services.media.stream(file.storage_key, part=(0, min(HEAD, file.size)))
        return shown_kind(b"".join([piece async for piece in first]))
    except Skip as exc:
        raise not_found("file") from exc


def _knows(if_none_match: str | None, tag: str) -> bool:
    known = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    return tag in known or "*" in known


def _attachment(file: KeptFile) -> str:
    """The name is a stranger's too: of it stays what can be a file's name."""
    plain = "".join("_" if one in '/\\:*?"<>|' or not one.isprintable() else one for one in file.name or "")
    name = plain.strip(" ._")[-LONGEST_NAME:] or file.sha256[:16]
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def _part(header: str | None, size: int) -> tuple[int, int] | None:
    """From and up to which byte; None: the whole. Several parts at once get the whole, as the RFC allows."""
    asked = _RANGE.fullmatch((header or "").strip())
    if asked is None or asked[0] == "bytes=-":
        return None
    first, last = asked[1], asked[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start >= end:
        raise Problem(416, f"This file has {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    return start, end


storage = APIRouter(prefix="/storage", tags=["storage"])


class UsageAnswer(FromValue):
    """Of one kind of thing."""

    kind: str = Field(description="posts, versions, media, vision, pages or search.")
    count: int
    bytes: int


class StorageAnswer(BaseModel):
    """What your tenant's channels take. What tenants share is counted for each of them."""

    model_config = example(items=[{"kind": "media", "count": 120, "bytes": 48_000_000}], bytes=48_000_000)

    items: list[UsageAnswer]
    bytes: int


class QuotaAnswer(FromValue):
    """What your tenant may take: of media, pictures' descriptions and pages together."""

    model_config = example(megabytes=100, used=84_000_000, percent=80.1, standing="warning")

    megabytes: int = Field(description="0: there is no quota.")
    used: int = Field(description="Bytes.")
    percent: Annotated[float, rounded(1)]
    standing: Standing = Field(description="warning from 80 % on; full: no files are downloaded, posts still are.")
    measured_at: datetime | None = Field(None, description="When all was counted last; newer files are added to it.")


class MeasuredAnswer(FromValue):
    """Of one kind, when it was counted."""

    at: datetime
    kind: str
    bytes: int
    count: int = Field(validation_alias="objects")


class EvictedAnswer(FromValue):
    """A file that was given up because it was not opened for long."""

    sha256: str
    bytes: int = Field(validation_alias="size")
    evicted_at: datetime
    post_id: Annotated[str, BeforeValidator(str)]
    channel: str
    name: str | None
    on_its_way: Annotated[bool, BeforeValidator(lambda status: status == "pending")] = Field(
        validation_alias="status", description="It was asked for, and is downloaded again."
    )


@storage.get("", operation_id="get_storage", summary="Storage usage by kind")
async def get_storage(services: ServicesDep, caller: CallerDep) -> StorageAnswer:
    found = await count_storage(StorageUsage(services.database), caller)
    items = [UsageAnswer.model_validate(one) for one in found]
    return StorageAnswer(items=items, bytes=sum(one.bytes for one in found))


@storage.get("/quota", operation_id="get_storage_quota", summary="Your storage quota")
async def get_storage_quota(services: ServicesDep, caller: CallerDep) -> QuotaAnswer:
    """The operator of this installation sets it."""
    return QuotaAnswer.model_validate(await quota_of(services, caller))


@storage.get("/history", operation_id="get_storage_history", summary="Storage usage over time")
async def get_storage_history(
    services: ServicesDep,
    caller: CallerDep,
    days: Annotated[int, Query(ge=1, le=400, description="So many days back.")] = 30,
) -> Items[MeasuredAnswer]:
    """Counted every six hours, the oldest first."""
    since = services.clock() - timedelta(days=days)
    found = await Storage(services.database).history(caller.tenant_id, since)
    return Items(items=[MeasuredAnswer.model_validate(one) for one in found])


@storage.get("/evicted", operation_id="list_evicted_files", summary="Files that were given up")
async def list_evicted_files(
    services: ServicesDep, caller: CallerDep, limit: Annotated[int, Query(ge=1, le=500)] = 50
) -> Items[EvictedAnswer]:
    """The newest first."""
    found = await Evictions(services.database).of_tenant(caller.tenant_id, limit=limit)
    return Items(items=[EvictedAnswer.model_validate(one) for one in found])


@storage.post(
    "/evicted/{sha256}/fetch", operation_id="fetch_evicted_file", summary="Fetch a file again", status_code=202
)
async def fetch_evicted_file(
    services: ServicesDep,
    caller: CallerDep,
    sha256: Sha256,
) -> None:
    """It is downloaded from Telegram once more, usually within a minute."""
    if not await Evictions(services.database).fetch_again(caller.tenant_id, sha256):
        raise not_found("file that was given up")
