"""Who calls: an API key or a session, one rate limit for all, and a token in every form of a session."""

from __future__ import annotations

import hmac
from math import ceil
from typing import Annotated, cast

from fastapi import Depends, Request

from telegram_assistant.domain.access import Caller, Via
from telegram_assistant.services.problems import Problem, forbidden
from telegram_assistant.services.services import Services

COOKIE = "tga_session"
PER_MINUTE = 600  # requests of one user
WRONG_PER_MINUTE = 30  # wrong credentials, from one address
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def services_of(request: Request) -> Services:
    return cast("Services", request.app.state.services)


def address_of(request: Request) -> str:
    """Where it comes from. Behind a proxy: the proxy, unless uvicorn was told to trust it."""
    return request.client.host if request.client else ""


def welcome_link(request: Request, services: Services, token: str) -> str:
    """As people reach us, or as this request did."""
    address = services.settings.api_public_url or str(request.base_url)
    return f"{address.rstrip('/')}/welcome?token={token}"


async def known_caller(request: Request) -> Caller | None:
    """Who it is, if it says so. A key that does not fit is an error, not a stranger."""
    services = services_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        caller = await services.access.by_key(token.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            await _limit(services, f"wrong:{address_of(request)}", WRONG_PER_MINUTE)
            raise _unauthorized("This API key is not valid: make one with tga keys create, or on your account page")
        return caller
    cookie = request.cookies.get(COOKIE)
    return await services.access.by_session(cookie) if cookie else None


async def get_caller(request: Request) -> Caller:
    caller = await known_caller(request)
    if caller is None:
        raise _unauthorized("Send an API key as Authorization: Bearer …, or sign in")
    await _limit(services_of(request), f"user:{caller.user_id}", PER_MINUTE)
    if caller.via is Via.SESSION and request.method not in SAFE:
        await check_csrf(request, caller)
    return caller


async def get_admin(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
    if not caller.is_admin:
        raise forbidden()
    return caller


async def check_csrf(request: Request, caller: Caller) -> None:
    """Another site can make a browser send our cookie, but does not know this token."""
    told = request.headers.get("x-csrf-token", "")
    if not told and "form" in request.headers.get("content-type", ""):
        told = str((await request.form()).get("csrf") or "")
    if not hmac.compare_digest(told.encode("utf-8", "replace"), caller.csrf.encode()):
        raise forbidden("This form is too old, or not ours: load the page again")


async def _limit(services: Services, key: str, limit: int) -> None:
    wait = await services.access.allow(key, limit=limit, per=60)
    if wait > 0:
        seconds = ceil(wait)
        raise Problem(429, f"Too many requests: wait {seconds} s", headers={"Retry-After": str(seconds)})


def _unauthorized(detail: str) -> Problem:
    return Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


ServicesDep = Annotated[Services, Depends(services_of)]
CallerDep = Annotated[Caller, Depends(get_caller)]
AdminDep = Annotated[Caller, Depends(get_admin)]
# The same for pages: an unknown caller is led to the sign-in (web/page.py).
PageCallerDep = CallerDep
PageAdminDep = AdminDep
