"""Answers that a client may keep: the same content, the same tag."""

from __future__ import annotations

from hashlib import sha256

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel


def etagged(request: Request, model: BaseModel) -> Response:
    """The model as JSON, or 304 when the client has it already."""
    body = model.model_dump_json().encode()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
