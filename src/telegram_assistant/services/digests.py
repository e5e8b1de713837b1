"""Digests of one caller: what the API and the pages do with them alike."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.digests import (
    LONGEST_NAME,
    LONGEST_TOPIC,
    MOST_CHANNELS,
    MOST_STORIES,
    Content,
    Digest,
    Frequency,
    Issue,
    Language,
    Schedule,
    Way,
    Wish,
    next_after,
    tidy,
)
from telegram_assistant.jobs.digest_formats import feed_path
from telegram_assistant.services.problems import Problem, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts


class DigestActions:
    """Everything about digests that this caller may do. Those of others are not there."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self.caller = caller
        self.maker = services.digests
        self.digests = Digests(services.database)
        self.issues = DigestIssues(services.database)

    async def all(self) -> list[Digest]:
        return await self.digests.of_user(self.caller.tenant_id, self.caller.user_id)

    async def get(self, digest_id: UUID) -> Digest:
        found = await self.digests.get(self.caller.tenant_id, self.caller.user_id, digest_id)
        if found is None:
            raise not_found("digest")
        return found

    async def issue(self, digest_id: UUID, issue_id: UUID) -> tuple[Digest, Issue]:
        digest = await self.get(digest_id)
        issue = await self.issues.get(digest.tenant_id, digest.id, issue_id)
        if issue is None:
            raise not_found("issue")
        return digest, issue

    async def check(self, wish: Wish) -> None:
        """Only channels that the caller sees."""
        if not wish.channels:
            return
        visible = set(await VisiblePosts(self._services.database).channels(self.caller.tenant_id))
        unknown = [str(one) for one in wish.channels if one not in visible]
        if unknown:
            raise Problem(422, f"channels: you have no channel {', '.join(unknown[:10])}")

    async def preview(self, wish: Wish, period: timedelta | None = None) -> tuple[datetime, datetime, Content]:
        """What a digest like this would say now; nothing is kept of it."""
        await self.check(wish)
        return await self.maker.preview(self.caller.tenant_id, self.caller.user_id, wish, period=period)

    async def add(self, wish: Wish) -> Digest:
        await self.check(wish)
        next_at = next_after(wish.schedule, self._services.clock())
        return await self.get(await self.digests.add(self.caller.tenant_id, self.caller.user_id, wish, next_at=next_at))

    async def change(self, digest: Digest, wish: Wish) -> Digest:
        # Channels that were lost since stay chosen: they may come back, and issues say that they are gone.
        known = set(digest.wish.channels)
        if not set(wish.channels) <= known:
            await self.check(wish)
        await self.digests.change(digest, wish, next_at=digest.due_after(wish, self._services.clock()))
        return await self.get(digest.id)

    async def send_again(self, issue: Issue) -> bool:
        return await self.issues.send_again(issue, self._services.clock())

    def feed(self, digest: Digest) -> str:
        return feed_path(self._services.signer, digest)


READ_TOPICS = 1_000  # more are not even looked at; how many are allowed is said in words
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
DIGEST_EXAMPLE: dict[str, Any] = {
    "name": "Morning news",
    "topics": ["Economy", '"key rate" -mortgage'],
    "channels": [],
    "frequency": "daily",
    "time": "08:30",
    "zone": "Europe/Moscow",
    "language": "en",
    "max_stories": 10,
    "deliveries": ["web", "rss"],
}


def minute_of(text: str) -> int:
    """Raises ValueError with a sentence."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError("time: write it as 12:07")
    return int(found[1]) * 60 + int(found[2])


class DigestIn(BaseModel):
    """What you want to read, and when."""

    model_config = ConfigDict(json_schema_extra={"examples": [DIGEST_EXAMPLE]})

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    topics: list[Annotated[str, Field(max_length=LONGEST_TOPIC)]] = Field(
        [], max_length=READ_TOPICS, description="Names of topics, or searches; none: everything."
    )
    channels: list[Annotated[int, Field(ge=1, lt=2**63)]] = Field(
        [], max_length=MOST_CHANNELS, description="Ids of channels; none: all of yours."
    )
    frequency: Frequency = Frequency.DAILY
    weekday: int = Field(0, ge=0, le=6, description="Of a weekly one; 0 is Monday.")
    day: int = Field(1, ge=1, le=31, description="Of a monthly one; 31 is the last day of every month.")
    time: str = Field("12:00", max_length=5, description="HH:MM in the zone.", examples=["08:30"])
    zone: str = Field("Europe/Moscow", max_length=64, description="IANA name of a time zone.")
    language: Language = Language.RU
    max_stories: int = Field(10, ge=1, le=MOST_STORIES)
    ads: bool = Field(False, description="Tell advertising and jokes, too.")
    deliveries: list[Way] = Field([Way.WEB], max_length=10)
    enabled: bool = True

    def wish(self) -> Wish:
        try:
            schedule = Schedule(
                frequency=self.frequency,
                weekday=self.weekday,
                day=self.day,
                minute=minute_of(self.time),
                zone=self.zone,
            )
            return tidy(
                Wish(
                    name=self.name,
                    topics=tuple(self.topics),
                    channels=tuple(self.channels),
                    schedule=schedule,
                    language=self.language,
                    most=self.max_stories,
                    ads=self.ads,
                    ways=tuple(self.deliveries),
                    enabled=self.enabled,
                )
            )
        except ValueError as exc:
            raise Problem(422, str(exc)) from exc
