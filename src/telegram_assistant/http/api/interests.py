"""Interests: what the system thinks you like, what you say yourself, and what it recommends from them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AfterValidator, AliasPath, BaseModel, ConfigDict, Field

from telegram_assistant.domain.interests import LONGEST_TOPIC, Weighed
from telegram_assistant.http.answers import FromValue, Items, example, rounded
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.i18n import LANGUAGES
from telegram_assistant.jobs.interests import Advisor
from telegram_assistant.language.taxonomy import topic_title
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.reading import choose, forget, weighed_of

LONGEST_TEXT = 280  # characters of a recommended post


class InterestOut(BaseModel):
    """Something that you are interested in."""

    model_config = example(
        topic="economy",
        names={"en": "Economy", "ru": "Экономика"},
        weight=0.83,
        queries=3.1,
        views=12.4,
        chosen=None,
        last_at="2026-11-12T09:30:00Z",
    )

    topic: str
    names: dict[str, str] = Field(description="What it is called, by language; a word of your own is itself.")
    weight: float = Field(description="0 to 1.")
    queries: float = Field(description="Searches about it; they fade over 30 days, as everything does.")
    views: float = Field(description="Posts about it that you opened.")
    chosen: float | None = Field(description="The weight that you gave it; null: it follows from what you do.")
    last_at: datetime


class ChosenIn(BaseModel):
    """An interest that you choose, or change."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"topic": "космос", "weight": 0.6}]})

    topic: str = Field(min_length=1, max_length=LONGEST_TOPIC, description="A topic by key or name, or any word.")
    weight: float | None = Field(
        1.0, ge=0, le=1, description="0: never; null: as it follows from what you do.", allow_inf_nan=False
    )


class RecommendedPostOut(FromValue):
    """A post that fits."""

    post_id: UUID = Field(validation_alias=AliasPath("post", "post_id"))
    channel_id: int = Field(validation_alias=AliasPath("post", "channel_id"))
    channel: str = Field(validation_alias=AliasPath("post", "channel_title"))
    posted_at: datetime = Field(validation_alias=AliasPath("post", "posted_at"))
    text: Annotated[str, AfterValidator(lambda text: text[:LONGEST_TEXT])] = Field(
        validation_alias=AliasPath("post", "text"), description="Its beginning."
    )
    url: str = Field(validation_alias=AliasPath("post", "url"))
    why: list[str] = Field(description="The interests that it meets.")
    score: Annotated[float, rounded(3)]


class RecommendedChannelOut(FromValue):
    """A channel that you watch and that writes about it."""

    channel_id: int
    title: str
    username: str | None
    posts: int = Field(description="Of the last 30 days.")
    fitting: int = Field(description="Those of them that fit.")
    why: list[str] = Field(validation_alias="labels")


class NewChannelOut(FromValue):
    """A public channel that yours forward from, and that you do not watch."""

    title: str
    username: str
    posts: int = Field(description="Posts of your channels that come from it.")
    channels: int = Field(description="Channels of yours that forward it.")


class RecommendationsOut(FromValue):
    """What fits your interests."""

    posts: list[RecommendedPostOut]
    channels: list[RecommendedChannelOut]
    new_channels: list[NewChannelOut] = Field(validation_alias="origins")


MOST = 50

router = APIRouter(prefix="/interests", tags=["interests"])


@router.get("", operation_id="list_interests", summary="Your interests")
async def list_interests(services: ServicesDep, caller: CallerDep) -> Items[InterestOut]:
    """From your searches, from what you open, and from what you chose; the strongest first, at most 200. Other users do
    not see them."""
    found = await weighed_of(services, caller)
    return Items(items=[_interest(one, services.settings.ai_topics_file) for one in found])


def _interest(weighed: Weighed, topics: Path | None) -> InterestOut:
    one = weighed.interest
    return InterestOut(
        topic=one.topic,
        names={language: topic_title(one.topic, language, topics) for language in LANGUAGES},
        weight=round(weighed.weight, 3),
        queries=round(one.queries, 2),
        views=round(one.views, 2),
        chosen=one.chosen,
        last_at=one.last_at,
    )


@router.put("", operation_id="choose_interest", summary="Choose an interest, or change one")
async def choose_interest(services: ServicesDep, caller: CallerDep, chosen: ChosenIn) -> Items[InterestOut]:
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
    found = await advisor.recommend(caller.tenant_id, caller.user_id, limit=limit)
    return RecommendationsOut.model_validate(found)
