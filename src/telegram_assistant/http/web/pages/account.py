"""`/account`: oneself, one's keys and one's Telegram; for admins the people of the tenant, and what was done."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.access.credentials import BAD_EMAIL
from telegram_assistant.access.people import DISABLED, EMAIL_TAKEN, LAST_ADMIN, TOO_MANY_KEYS, Invitation
from telegram_assistant.domain.access import Caller, Role
from telegram_assistant.errors import Reject
from telegram_assistant.http.answers import Cursor, read_cursor, write_cursor
from telegram_assistant.http.dependencies import AdminDep, CallerDep, ServicesDep, welcome_link
from telegram_assistant.http.web.page import language_of, page
from telegram_assistant.i18n import load_texts
from telegram_assistant.services.bot_link import BotAccount, Code
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.services import Services

MOST = 200  # keys and people on a page
ON_A_PAGE = 50  # lines of the log

router = APIRouter(prefix="/account", include_in_schema=False)

SAID = {
    LAST_ADMIN: "account.last_admin",
    EMAIL_TAKEN: "account.email_taken",
    BAD_EMAIL: "account.email_bad",
    TOO_MANY_KEYS: "account.too_many_keys",
    DISABLED: "account.is_disabled",
}

Name = Annotated[str, Form(max_length=1000)]
Chosen = Annotated[Literal["admin", "member"], Form()]


@router.get("")
async def account(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    return await _own(request, services, caller)


@router.post("/keys")
async def create_key(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    *,
    name: Name = "",
    role: Chosen = "member",
    days: Annotated[int, Form(ge=0, le=3650)] = 0,
) -> HTMLResponse:
    """The page that answers is the only one that ever shows the secret."""
    expires = services.clock() + timedelta(days=days) if days else None
    try:
        made = await services.access.people.create_key(caller, name=name, role=Role(role), expires=expires)
    except Reject as exc:
        return await _own(request, services, caller, problem=_said(request, exc))
    return await _own(request, services, caller, token=made.token)


@router.post("/keys/{key_id}/revoke")
async def revoke_key(services: ServicesDep, caller: CallerDep, key_id: UUID) -> Response:
    if await services.access.people.revoke_key(caller, key_id) is None:
        raise not_found("key")
    return RedirectResponse("/account", status_code=303)


@router.post("/sign-out-everywhere")
async def sign_out_everywhere(services: ServicesDep, caller: CallerDep) -> Response:
    await services.access.sign_out_everywhere(caller)
    return RedirectResponse("/sign-in", status_code=303)


@router.get("/people")
async def people(request: Request, services: ServicesDep, caller: AdminDep) -> HTMLResponse:
    return await _people(request, services, caller)


@router.post("/people")
async def invite(
    request: Request,
    services: ServicesDep,
    caller: AdminDep,
    *,
    name: Name = "",
    email: Name = "",
    role: Chosen = "member",
) -> HTMLResponse:
    """As with keys: the link is shown in this answer only."""
    try:
        made = await services.access.people.invite(caller, name=name, role=Role(role), email=email)
    except Reject as exc:
        written = {"name": name, "email": email, "role": role}
        return await _people(request, services, caller, problem=_said(request, exc), written=written)
    return await _people(request, services, caller, made=made)


@router.post("/people/{user_id}/link")
async def make_link(request: Request, services: ServicesDep, caller: AdminDep, user_id: UUID) -> HTMLResponse:
    try:
        made = await services.access.people.link(caller, user_id)
    except Reject as exc:
        return await _people(request, services, caller, problem=_said(request, exc))
    if made is None:
        raise not_found("user")
    return await _people(request, services, caller, made=made)


@router.post("/people/{user_id}/{change}")
async def change_user(
    request: Request,
    services: ServicesDep,
    caller: AdminDep,
    user_id: UUID,
    change: Literal["admin", "member", "disable", "enable"],
) -> Response:
    try:
        role = Role(change) if change in {"admin", "member"} else None
        disabled = {"disable": True, "enable": False}.get(change)
        changed = await services.access.people.change(caller, user_id, role=role, disabled=disabled)
    except Reject as exc:
        return await _people(request, services, caller, problem=_said(request, exc))
    if changed is None:
        raise not_found("user")
    return RedirectResponse("/account/people", status_code=303)


@router.get("/log")
async def log(request: Request, services: ServicesDep, caller: AdminDep, cursor: Cursor = None) -> HTMLResponse:
    before = None if cursor is None else int(read_cursor(cursor, int)[0])
    found = await services.access.people.audit(caller, limit=ON_A_PAGE + 1, before=before)
    older = write_cursor(found[ON_A_PAGE - 1].id) if len(found) > ON_A_PAGE else None
    known = load_texts().keys
    return page(
        request,
        "account_log.html",
        caller=caller,
        entries=found[:ON_A_PAGE],
        older=older,
        known=known,
        first=not cursor,
    )


async def _own(
    request: Request, services: Services, caller: Caller, *, token: str = "", problem: str = ""
) -> HTMLResponse:
    keys = await services.access.people.keys(caller, limit=MOST)
    return _page(request, "account.html", caller, keys=keys, token=token, problem=problem, now=services.clock())


async def _people(
    request: Request,
    services: Services,
    caller: Caller,
    *,
    made: Invitation | None = None,
    problem: str = "",
    written: dict[str, str] | None = None,
) -> HTMLResponse:
    """`written`: what stood in the form that was refused."""
    users = await services.access.people.users(caller, limit=MOST)
    address = welcome_link(request, services, made.token) if made else ""
    invited = made.user.name if made else ""
    return _page(
        request,
        "account_people.html",
        caller,
        users=users,
        link_for=invited,
        address=address,
        problem=problem,
        written=written or {},
    )


def _page(request: Request, template: str, caller: Caller, *, problem: str, **context: Any) -> HTMLResponse:
    status = 422 if problem else 200
    return page(request, template, caller=caller, status=status, kept=False, problem=problem, **context)


def _said(request: Request, exc: Reject) -> str:
    key = SAID.get(str(exc))
    return load_texts()(language_of(request), key) if key else str(exc)


bot = APIRouter(prefix="/account/bot", include_in_schema=False)


@bot.get("")
async def bot_link(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    return await _shown(request, BotAccount(services, caller), caller)


@bot.post("/code")
async def make_code(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    account = BotAccount(services, caller)
    return await _shown(request, account, caller, await account.code())


@bot.post("/unlink")
async def unlink(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    account = BotAccount(services, caller)
    await account.unlink()
    return await _shown(request, account, caller)


async def _shown(request: Request, account: BotAccount, caller: Caller, code: Code | None = None) -> HTMLResponse:
    state = await account.state()
    template = "bot_code.html" if "hx-request" in request.headers else "bot_code_page.html"
    address = code.link(state.username) if code else None
    return page(request, template, caller=caller, kept=False, state=state, code=code, address=address)
