"""Interests: what the system thinks you like, what you say yourself, and what it recommends from them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from telegram_assistant.api.auth import CallerDep, ServicesDep
from telegram_assistant.api.models.interests import ChosenIn, InterestListOut, InterestOut, RecommendationsOut
from telegram_assistant.api.problems import Problem, not_found
from telegram_assistant.api.services import Services
from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.interests import LONGEST_TOPIC, Weighed, weigh
from telegram_assistant.errors import Retry
from telegram_assistant.jobs.interests import Advisor, topic_key
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.interests import Interests

MOST = 50

log = get_logger(__name__)

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


async def weighed_of(services: Services, caller: Caller) -> list[Weighed]:
    known = await Interests(services.database).of_user(caller.tenant_id, caller.user_id)
    return weigh(known, services.clock())


async def choose(services: Services, caller: Caller, topic: str, weight: float | None) -> None:
    """Raises Reject for one too many, a problem for nothing at all."""
    key = topic_key(topic, load_taxonomy(services.settings.ai_topics_file))
    if not key:
        raise Problem(422, "topic: has no letters in it")
    interests = Interests(services.database)
    await interests.choose(caller.tenant_id, caller.user_id, key, weight, now=services.clock())


async def forget(services: Services, caller: Caller, topic: str | None) -> int:
    """In the graph at once, too, where that is at hand; otherwise with the next synchronisation."""
    key = None if topic is None else topic_key(topic, load_taxonomy(services.settings.ai_topics_file))
    gone = await Interests(services.database).forget(caller.tenant_id, caller.user_id, key)
    if gone and key is None and services.graph is not None:
        try:
            await services.graph.put_interests(caller.tenant_id, caller.user_id, {})
        except Retry as exc:
            log.warning("interests_still_in_the_graph", reason=str(exc))
    return gone
