"""Interests: what the system thinks you like, what you say yourself, and what it recommends from them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from telegram_assistant.domain.interests import LONGEST_TOPIC
from telegram_assistant.http.api.models.interests import ChosenIn, InterestListOut, InterestOut, RecommendationsOut
from telegram_assistant.http.auth import CallerDep, ServicesDep
from telegram_assistant.jobs.interests import Advisor
from telegram_assistant.services.interests import choose, forget, weighed_of
from telegram_assistant.services.problems import not_found

MOST = 50

router = APIRouter(prefix="/interests", tags=["interests"])


@router.get("", operation_id="list_interests", summary="Your interests")
async def list_interests(services: ServicesDep, caller: CallerDep) -> InterestListOut:
    """From your searches, from what you open, and from what you chose. Nobody else sees them."""
    found = await weighed_of(services, caller)
    return InterestListOut(items=[InterestOut.of(one, services.settings.ai_topics_file) for one in found])


@router.put("", operation_id="choose_interest", summary="Choose an interest, or change one")
async def choose_interest(services: ServicesDep, caller: CallerDep, chosen: ChosenIn) -> InterestListOut:
    await choose(services, caller, chosen.topic, chosen.weight)
    return await list_interests(services, caller)


@router.delete("", status_code=204, operation_id="forget_interests", summary="Forget an interest, or all")
async def forget_interests(
    services: ServicesDep,
    caller: CallerDep,
    topic: Annotated[str | None, Query(max_length=LONGEST_TOPIC, description="Without it: all.")] = None,
) -> None:
    if not await forget(services, caller, topic) and topic is not None:
        raise not_found("interest")


@router.get("/recommendations", operation_id="list_recommendations", summary="Posts and channels that fit them")
async def list_recommendations(
    services: ServicesDep, caller: CallerDep, limit: Annotated[int, Query(ge=1, le=MOST)] = 12
) -> RecommendationsOut:
    advisor = Advisor(services.database, services.clock)
    return RecommendationsOut.of(await advisor.recommend(caller.tenant_id, caller.user_id, limit=limit))
