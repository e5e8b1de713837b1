"""`/sign-in`, `/sign-out`, `/welcome` (where a one-time link leads), `/choose` (language and colours, in cookies)."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.access.credentials import BAD_LOGIN, TOO_EASY, TOO_LONG, TOO_SHORT
from telegram_assistant.access.service import NO_LOGIN, SPENT, TAKEN, WRONG
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.http.dependencies import COOKIE, ServicesDep, address_of, get_caller
from telegram_assistant.http.web.page import LANGUAGE, THEME, language_of, page
from telegram_assistant.i18n import load_texts
from telegram_assistant.services.problems import forbidden
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.credentials import Link

YEAR = 31_536_000  # the cookie outlives the session, which lasts on with each use
LONGEST_NEXT = 2000

router = APIRouter(include_in_schema=False)

# What the door says, in the reader's language.
SAID = {
    WRONG: "sign_in.wrong",
    SPENT: "sign_in.spent",
    NO_LOGIN: "sign_in.login_missing",
    TAKEN: "sign_in.login_taken",
    BAD_LOGIN: "sign_in.login_bad",
    TOO_SHORT: "sign_in.password_short",
    TOO_LONG: "sign_in.password_long",
    TOO_EASY: "sign_in.password_easy",
}

Next = Annotated[str, Query(max_length=LONGEST_NEXT)]
Login = Annotated[str, Form(max_length=10_000)]
Password = Annotated[str, Form(max_length=10_000)]
Token = Annotated[str, Form(max_length=200)]


@router.get("/sign-in")
async def sign_in_form(request: Request, services: ServicesDep, next: Next = "/") -> Response:  # noqa: A002 - as in the address
    cookie = request.cookies.get(COOKIE)
    if cookie and await services.access.by_session(cookie) is not None:
        return RedirectResponse(local(next), status_code=303)
    return _sign_in_page(request, then=local(next))


@router.post("/sign-in")
async def sign_in(
    request: Request,
    services: ServicesDep,
    login: Login = "",
    password: Password = "",
    next: Annotated[str, Form(max_length=LONGEST_NEXT)] = "/",  # noqa: A002 - as in the form
) -> Response:
    _from_here(request)
    try:
        cookie = await services.access.sign_in(
            login, password, address=address_of(request), user_agent=request.headers.get("user-agent", "")
        )
    except (Reject, Retry) as exc:
        return _refused(exc, _sign_in_page(request, then=local(next), login=login, problem=_said(request, exc)))
    await services.access.sign_out(request.cookies.get(COOKIE, ""))
    return _let_in(request, cookie, local(next))


@router.post("/sign-out", dependencies=[Depends(get_caller)])
async def sign_out(request: Request, services: ServicesDep) -> Response:
    """With the token of the form, so that no other site can sign a reader out."""
    await services.access.sign_out(request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/sign-in", status_code=303)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=request.url.scheme == "https")
    return response


@router.get("/welcome")
async def welcome(
    request: Request, services: ServicesDep, token: Annotated[str, Query(max_length=200)] = ""
) -> HTMLResponse:
    """Looking does not spend the link: messengers look at what they send."""
    return _welcome_page(request, token, await services.access.link(token))


@router.post("/welcome")
async def redeem(
    request: Request, services: ServicesDep, token: Token = "", login: Login = "", password: Password = ""
) -> Response:
    _from_here(request)
    offer = await services.access.link(token)
    if offer is None:
        return _welcome_page(request, token, None)
    try:
        cookie = await services.access.redeem(
            token,
            login or None if offer.login is None else None,
            password,
            address=address_of(request),
            user_agent=request.headers.get("user-agent", ""),
        )
    except (Reject, Retry) as exc:
        offer = await services.access.link(token)
        return _refused(exc, _welcome_page(request, token, offer, login=login, problem=_said(request, exc)))
    await services.access.sign_out(request.cookies.get(COOKIE, ""))
    return _let_in(request, cookie, await _first_page(services, offer, cookie))


async def _first_page(services: Services, offer: Link, cookie: str) -> str:
    """Who begins with an installation is asked how; who comes to one that runs reads."""
    caller = await services.access.by_session(cookie) if offer.login is None else None
    return "/start" if caller is not None and caller.is_operator else "/"


def _sign_in_page(request: Request, *, then: str, login: str = "", problem: str = "") -> HTMLResponse:
    shown = login if len(login) <= 300 and login.isprintable() else ""
    return page(request, "sign_in.html", caller=None, kept=False, next=then, login=shown, problem=problem)


def _welcome_page(
    request: Request, token: str, offer: Link | None, *, login: str = "", problem: str = ""
) -> HTMLResponse:
    shown = login if len(login) <= 100 and login.isprintable() else ""
    status = 200 if offer is not None else 410
    context = {"token": token, "offer": offer, "login": shown, "problem": problem}
    return page(request, "welcome.html", caller=None, status=status, kept=False, **context)


def _refused(exc: Reject | Retry, answer: HTMLResponse) -> HTMLResponse:
    if isinstance(exc, Retry):
        answer.status_code = 429
        answer.headers["Retry-After"] = str(ceil(exc.after or 1))
    elif answer.status_code == 200:
        answer.status_code = 422
    return answer


def _said(request: Request, exc: Reject | Retry) -> str:
    texts, language = load_texts(), language_of(request)
    if isinstance(exc, Retry):
        return texts(language, "sign_in.too_many", n=ceil(exc.after or 1))
    key = SAID.get(str(exc))
    return texts(language, key) if key else str(exc)


def _from_here(request: Request) -> None:
    """There is no session yet whose token a form could carry; the browser itself says where it comes from."""
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise forbidden("This form was sent from another site: open the page itself")


def _let_in(request: Request, cookie: str, where: str) -> Response:
    response = RedirectResponse(where, status_code=303)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, max_age=YEAR, path="/", httponly=True, samesite="lax", secure=secure)
    return response


def local(address: str) -> str:
    """Only to a page of ours; `//elsewhere` and `/\\elsewhere` are not."""
    ours = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if ours else "/"


@router.get("/choose")
async def choose(
    language: Literal["en", "ru"] | None = None,
    theme: Literal["auto", "light", "dark"] | None = None,
    next: str = "/",  # noqa: A002 - the name in the address
) -> Response:
    response = RedirectResponse(local(next), status_code=303)
    for name, value in ((LANGUAGE, language), (THEME, theme)):
        if value is not None:
            response.set_cookie(name, value, max_age=YEAR, samesite="lax", httponly=True)
    return response
