"""`/follow`: everything that the connected accounts follow, by folders, with ticks; and shared folders."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse

from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import fragment, page, said
from telegram_assistant.services.follows import FollowActions, Offer
from telegram_assistant.services.problems import Problem

router = APIRouter(prefix="/follow", include_in_schema=False)

Link = Annotated[str, Query(max_length=300)]


def follows_of(services: ServicesDep, caller: CallerDep) -> FollowActions:
    return FollowActions(services, caller)


FollowDep = Annotated[FollowActions, Depends(follows_of)]


@router.get("")
async def follow(request: Request, _desk: FollowDep, caller: CallerDep, link: Link = "") -> HTMLResponse:
    """The list comes after the page: Telegram is asked for it."""
    return page(request, "follow.html", caller=caller, link=link)


@router.get("/list")
async def offers(request: Request, desk: FollowDep, caller: CallerDep, link: Link = "") -> HTMLResponse:
    try:
        found, problem = await desk.offers(link), ""
    except Problem as exc:
        found, problem = [], said(request, "follow.bad_link") if exc.status == 422 else exc.detail
    context = {"groups": _grouped(found), "count": len(found), "problem": problem}
    return fragment(request, "follow_list.html", caller=caller, **context)


@router.post("")
async def add(
    request: Request,
    desk: FollowDep,
    caller: CallerDep,
    reference: Annotated[list[str], Form()] = [],  # noqa: B006 - FastAPI copies it
) -> HTMLResponse:
    added = await desk.add(reference)
    counts = Counter(one.outcome.value for one in added)
    return fragment(request, "follow_added.html", caller=caller, counts=counts)


def _grouped(found: list[Offer]) -> list[tuple[str, list[Offer]]]:
    """By the first folder of each, in the order of their names; what is in none comes last."""

    def folder(offer: Offer) -> str:
        return offer.followed.folders[0] if offer.followed.folders else ""

    parts = {name: list(part) for name, part in groupby(sorted(found, key=folder), key=folder)}
    return sorted(parts.items(), key=lambda part: (not part[0], part[0].casefold()))
