"""`/import`: an export of Telegram Desktop is sent, imported and reported on."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Form, Path, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from telegram_assistant.domain.access import Caller
from telegram_assistant.errors import Reject
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import language_of, page, said, size
from telegram_assistant.services.import_desk import NotTaken
from telegram_assistant.services.importing import ImportActions

STATUS = {"too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no_room": HTTPStatus.INSUFFICIENT_STORAGE}

router = APIRouter(prefix="/import", include_in_schema=False)

Token = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Typed = Annotated[str, Form(max_length=300)]


def actions_of(services: ServicesDep, caller: CallerDep) -> ImportActions:
    return ImportActions(services, caller)


ImportDep = Annotated[ImportActions, Depends(actions_of)]


@router.get("")
async def show(request: Request, desk: ImportDep, caller: CallerDep) -> HTMLResponse:
    return _shown(request, desk, caller, "import.html")


@router.get("/state")
async def state(request: Request, desk: ImportDep, caller: CallerDep) -> HTMLResponse:
    """Asked again and again while it runs."""
    return _shown(request, desk, caller, "import_state.html")


@router.put("/files/{token}/{name}")
async def receive(
    request: Request, desk: ImportDep, caller: CallerDep, token: Token, name: Annotated[str, Path(max_length=200)]
) -> Response:
    """The bytes themselves, not a form: they go to the disk as they come."""
    length = request.headers.get("content-length", "")
    told = int(length) if length.isdecimal() else None
    try:
        await desk.desk.receive(caller.user_id, token, name, request.stream(), said=told)
    except NotTaken as exc:
        status = STATUS.get(exc.reason, HTTPStatus.UNPROCESSABLE_ENTITY)
        return PlainTextResponse(_refusal(request, exc), status_code=status, headers={"Connection": "close"})
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post("/{token}")
async def begin(
    request: Request,
    desk: ImportDep,
    caller: CallerDep,
    token: Token,
    *,
    channel: Typed = "",
    zone: Typed = "",
    private: Annotated[bool, Form()] = False,
    only_look: Annotated[bool, Form()] = False,
) -> HTMLResponse:
    problem = ""
    try:
        await desk.begin(token, channel=channel, zone=zone, private=private, only_look=only_look)
    except NotTaken as exc:
        problem = _refusal(request, exc)
    except Reject as exc:
        problem = str(exc)
    return _shown(request, desk, caller, "import_state.html", problem=problem)


@router.post("")
async def forget(desk: ImportDep, caller: CallerDep) -> Response:
    """Begin with other files."""
    with suppress(NotTaken):  # it runs: the page shows it
        await desk.desk.forget(caller.user_id)
    return RedirectResponse("/import", status_code=303)


def _shown(request: Request, desk: ImportActions, caller: Caller, template: str, *, problem: str = "") -> HTMLResponse:
    context: dict[str, Any] = {"upload": desk.upload, "token": uuid4().hex, "most": desk.desk.most, "problem": problem}
    return page(request, template, caller=caller, kept=False, **context)


def _refusal(request: Request, exc: NotTaken) -> str:
    return said(request, f"import.refused_{exc.reason}", size=size(exc.limit, language=language_of(request)))


KEYS = [f"import.refused_{reason}" for reason in ("kind", "too_large", "no_room", "gone", "busy")]
