"""Answers that a client may keep: the same content, the same tag."""

from __future__ import annotations

import re
from hashlib import sha256

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel

from telegram_assistant.services.problems import Problem


def etagged(request: Request, model: BaseModel) -> Response:
    """The model as JSON, or 304 when the client has it already."""
    body = model.model_dump_json().encode()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def part_of(header: str | None, size: int) -> tuple[int, int] | None:
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
