"""Files of posts: for callers who see a post with them, or have a signed address (G7)."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from telegram_assistant.domain.media_rules import HEAD, UNKNOWN, shown_kind
from telegram_assistant.errors import Skip
from telegram_assistant.http.dependencies import ServicesDep, get_caller
from telegram_assistant.services.media_links import Thumbnails, is_signed
from telegram_assistant.services.problems import Problem, bad_request, forbidden, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.post_views import KeptFile, PostFiles

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
        content = await thumbnails.of(file, width)
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
