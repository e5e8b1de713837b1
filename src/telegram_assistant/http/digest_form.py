"""A digest as people ask for it, by the API or by the form of the page."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from telegram_assistant.domain.digests import (
    LONGEST_NAME,
    LONGEST_TOPIC,
    MOST_CHANNELS,
    MOST_STORIES,
    Frequency,
    Language,
    Schedule,
    Way,
    Wish,
    tidy,
)
from telegram_assistant.services.problems import Problem

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
                    ways=tuple(self.deliveries),
                    enabled=self.enabled,
                )
            )
        except ValueError as exc:
            raise Problem(422, str(exc)) from exc
