"""What handlers of the API and of the pages ask for: who calls, what the caller may do, and what is the caller's own.

A caller has an API key or a session; one rate limit holds for all, and every form of a session carries a token.
"""

from __future__ import annotations

import hmac
from math import ceil
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Path, Request

from telegram_assistant.domain.access import Caller, Via, owners_for
from telegram_assistant.domain.alerting import AlertChannel
from telegram_assistant.domain.saved_search import SavedSearch
from telegram_assistant.search.graph import GraphWalk
from telegram_assistant.services.alerts import AlertPlaceActions, SavedSearchActions
from telegram_assistant.services.channels import ChannelActions
from telegram_assistant.services.digests import DigestActions
from telegram_assistant.services.problems import Problem, forbidden, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

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

PostId = Annotated[UUID, Path(description="The post's id.", examples=["3f0c7c52-5d0e-5c3a-9a53-0c7f7c1f2b11"])]
TrendId = Annotated[UUID, Path(description="The trend's id.", examples=["6f9619ff-8b86-4d01-b42d-00cf4fc964ff"])]

SEARCH = "1b671a64-40d5-491e-99b0-da01ff1f3341"
PLACE = "3f1c2f0e-8f7e-4c7b-9b6a-0d6f1a2b3c4d"


def channels_of(services: ServicesDep, caller: CallerDep) -> ChannelActions:
    return ChannelActions(services, caller)


def admin_channels_of(services: ServicesDep, admin: AdminDep) -> ChannelActions:
    return ChannelActions(services, admin)


def digests_of(services: ServicesDep, caller: CallerDep) -> DigestActions:
    return DigestActions(services, caller)


def saved_of(services: ServicesDep, caller: CallerDep) -> SavedSearchActions:
    return SavedSearchActions(services, caller)


def places_of(services: ServicesDep, admin: AdminDep) -> AlertPlaceActions:
    return AlertPlaceActions(services, admin)


def graph_walk_of(services: ServicesDep) -> GraphWalk:
    database = services.database
    return GraphWalk(services.graph, SearchDocuments(database), VisiblePosts(database), owners_for)


ChannelsDep = Annotated[ChannelActions, Depends(channels_of)]
AdminChannelsDep = Annotated[ChannelActions, Depends(admin_channels_of)]
DigestDep = Annotated[DigestActions, Depends(digests_of)]
SavedDep = Annotated[SavedSearchActions, Depends(saved_of)]
PlacesDep = Annotated[AlertPlaceActions, Depends(places_of)]
GraphWalkDep = Annotated[GraphWalk, Depends(graph_walk_of)]


async def get_saved(
    desk: SavedDep, search_id: Annotated[UUID, Path(description="The saved search's id.", examples=[SEARCH])]
) -> SavedSearch:
    """Those of other users are not there."""
    found = await desk.saved.get(desk.tenant_id, desk.user_id, search_id)
    if found is None:
        raise not_found("saved search")
    return found


async def get_place(
    desk: PlacesDep, place_id: Annotated[UUID, Path(description="The place's id.", examples=[PLACE])]
) -> AlertChannel:
    found = await desk.channels.get(desk.tenant_id, place_id)
    if found is None:
        raise not_found("place for alerts")
    return found


OwnSavedDep = Annotated[SavedSearch, Depends(get_saved)]
PlaceDep = Annotated[AlertChannel, Depends(get_place)]
