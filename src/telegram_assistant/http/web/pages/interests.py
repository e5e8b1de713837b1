"""`/interests`: what the system thinks a reader likes, to be changed and forgotten; and what follows from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.domain.interests import LONGEST_TOPIC
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import fragment, page
from telegram_assistant.jobs.interests import Advisor
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.services.reading import choose, forget, weighed_of

# What a reader can choose, as weights; the first is what follows from what is done.
LEVELS: dict[str, float | None] = {"auto": None, "never": 0.0, "little": 0.3, "some": 0.6, "much": 1.0}
POSTS = 6
SUGGESTED = 12  # topics to begin with

router = APIRouter(include_in_schema=False)
Topic = Annotated[str, Form(min_length=1, max_length=LONGEST_TOPIC)]


@router.get("/interests")
async def interests(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    known = await weighed_of(services, caller)
    taken = {one.interest.topic for one in known}
    topics = load_taxonomy(services.settings.ai_topics_file).names()
    return page(
        request,
        "interests.html",
        caller=caller,
        known=known,
        levels=list(LEVELS),
        level_of=_level,
        suggested=[key for key in topics if key not in taken][:SUGGESTED],
        longest=LONGEST_TOPIC,
    )


@router.get("/interests/recommended")
async def recommended(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    """Loaded after the page."""
    advisor = Advisor(services.database, services.clock)
    found = await advisor.recommend(caller.tenant_id, caller.user_id, limit=POSTS)
    return fragment(request, "interests_recommended.html", caller=caller, found=found)


@router.post("/interests")
async def change(
    services: ServicesDep, caller: CallerDep, topic: Topic, level: Annotated[str, Form(max_length=10)] = "much"
) -> Response:
    await choose(services, caller, topic, LEVELS.get(level, 1.0))
    return RedirectResponse("/interests", status_code=303)


@router.post("/interests/forget")
async def forget_one(services: ServicesDep, caller: CallerDep, topic: Topic) -> Response:
    await forget(services, caller, topic)
    return RedirectResponse("/interests", status_code=303)


@router.post("/interests/forget-all")
async def forget_all(services: ServicesDep, caller: CallerDep) -> Response:
    await forget(services, caller, None)
    return RedirectResponse("/interests", status_code=303)


def _level(chosen: float | None) -> str:
    """The nearest, for weights that were set through the API."""
    if chosen is None:
        return "auto"
    return min((abs(weight - chosen), name) for name, weight in LEVELS.items() if weight is not None)[1]
