"""`/start`: ways to begin; `/connect`: a Telegram account without a terminal; the demo's channels are put away."""

from __future__ import annotations

from typing import Annotated, Any

import segno
from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from telegram_assistant.domain.access import Caller
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import fragment, language_of, page
from telegram_assistant.i18n import load_texts
from telegram_assistant.services.connect_desk import Stage, State
from telegram_assistant.services.connecting import BAD_HASH, BAD_ID, BAD_PHONE, LONGEST_ANSWER, Connecting
from telegram_assistant.services.demo import DemoActions
from telegram_assistant.services.problems import Problem

# What is wrong with what was typed, in the reader's language.
SAID = {BAD_ID: "connect.bad_id", BAD_HASH: "connect.bad_hash", BAD_PHONE: "connect.bad_phone"}

router = APIRouter(include_in_schema=False)

Typed = Annotated[str, Form(max_length=LONGEST_ANSWER)]


def connecting_of(services: ServicesDep, caller: CallerDep) -> Connecting:
    return Connecting(services, caller)


ConnectingDep = Annotated[Connecting, Depends(connecting_of)]


@router.get("/start")
async def start(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    made_up = await DemoActions(services, caller).count()
    return page(request, "start.html", caller=caller, made_up=made_up)


@router.post("/demo/put-away")
async def put_demo_away(services: ServicesDep, caller: CallerDep) -> Response:
    await DemoActions(services, caller).put_away()
    return RedirectResponse("/start", status_code=303)


@router.get("/connect")
async def connect(request: Request, desk: ConnectingDep, caller: CallerDep) -> HTMLResponse:
    return page(request, "connect.html", caller=caller, kept=False, **_shown(desk))


@router.get("/connect/state")
async def state(request: Request, services: ServicesDep, desk: ConnectingDep, caller: CallerDep) -> Response:
    """Asked again and again while Telegram or a person is waited for, and across the new start after it."""
    if desk.state.stage is Stage.NONE and not services.health.demo:
        return Response(headers={"HX-Redirect": "/follow"})  # it has started anew
    return _part(request, desk, caller)


@router.post("/connect")
async def begin(
    request: Request,
    desk: ConnectingDep,
    caller: CallerDep,
    *,
    api_id: Typed = "",
    api_hash: Typed = "",
    phone: Typed = "",
) -> Response:
    """With a phone number a code is sent to it; without one a QR code is shown."""
    problem = ""
    try:
        await desk.begin(api_id, api_hash, phone)
    except Problem as exc:
        problem = _said(request, exc)
    return _part(request, desk, caller, problem=problem, typed={"api_id": api_id, "phone": phone})


@router.post("/connect/answer")
async def answer(request: Request, desk: ConnectingDep, caller: CallerDep, answer: Typed = "") -> Response:
    await desk.answer(answer)
    return _part(request, desk, caller)


@router.post("/connect/end")
async def end(request: Request, desk: ConnectingDep, caller: CallerDep) -> Response:
    desk.end()
    return _part(request, desk, caller)


def _part(
    request: Request, desk: Connecting, caller: Caller, *, problem: str = "", typed: dict[str, str] | None = None
) -> Response:
    if "hx-request" not in request.headers and not problem:
        return RedirectResponse("/connect", status_code=303)
    template = "connect_state.html" if "hx-request" in request.headers else "connect.html"
    answer = fragment(request, template, caller=caller, **_shown(desk, problem, typed))
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _shown(desk: Connecting, problem: str = "", typed: dict[str, str] | None = None) -> dict[str, Any]:
    state = desk.state
    return {
        "state": state,
        "picture": _picture(state),
        "reason": f"connect.reason_{state.reason}" if f"connect.reason_{state.reason}" in load_texts().keys else "",
        "needs_application": desk.desk.needs_application,
        "can_connect": desk.desk.can_connect,
        "problem": problem,
        "typed": typed or {"api_id": "", "phone": ""},
    }


def _picture(state: State) -> Markup:
    """On white in dark colours too: phones do not read it the other way round."""
    if state.stage is not Stage.QR:
        return Markup()
    made = segno.make(state.address, micro=False)
    return Markup(made.svg_inline(border=3, omitsize=True, dark="#000", light="#fff"))  # noqa: S704 - drawn here


def _said(request: Request, problem: Problem) -> str:
    texts, language = load_texts(), language_of(request)
    if problem.status == 429:
        return texts(language, "connect.too_many", n=int(problem.headers["Retry-After"]))
    key = SAID.get(problem.detail)
    return texts(language, key) if key else problem.detail
