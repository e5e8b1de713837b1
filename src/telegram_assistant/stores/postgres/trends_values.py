"""A trend as it is shown: what the API, the page and the command have in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from telegram_assistant.domain.post import post_url
from telegram_assistant.domain.trends import Subject, Window


class State(StrEnum):
    """Whether a whole day has confirmed it."""

    EMERGING = "emerging"
    DAILY = "daily"


@dataclass(frozen=True, slots=True)
class Saved:
    """What a look brought: events that nobody had been told of, and those that go on."""

    new: tuple[UUID, ...] = ()
    going_on: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trend stands in the list."""

    day: int  # since 1970
    score: float
    trend_id: UUID


@dataclass(frozen=True, slots=True)
class Rising:
    """A subject of an event; its score is 0 when it rose earlier, and not in the last window."""

    subject: Subject
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPost:
    """A post of an event, as far as the reader may see it."""

    post_id: UUID
    channel_id: int
    channel_title: str
    channel_username: str | None
    message_id: int
    posted_at: datetime
    text: str
    views: int | None
    source_id: UUID | None  # the post that it copies or forwards
    forwarded: bool
    origin: str | None  # the name that a forward tells

    @property
    def url(self) -> str:
        return post_url(self.channel_username, self.channel_id, self.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTrend:
    """An event."""

    id: UUID
    main: Subject
    subjects: tuple[Rising, ...]
    state: State
    score: float
    mentions: int
    expected: float
    channels: int
    counts: tuple[int, ...]  # of the same hours of each day, the oldest first
    baseline_days: int
    window: Window
    first_at: datetime
    last_at: datetime
    found_at: datetime
    place: Place
    posts: tuple[TrendPost, ...]  # in the order of time

    @property
    def day(self) -> date:
        """That it belongs to, in UTC."""
        return datetime.fromtimestamp(86_400 * self.place.day, UTC).date()

    @property
    def lift(self) -> float:
        return self.mentions / self.expected if self.expected else 0.0

    @property
    def goes_on(self) -> bool:
        """It was found on an earlier day."""
        return self.found_at <= self.window.end - timedelta(days=1)

    @property
    def first(self) -> TrendPost | None:
        return self.posts[0] if self.posts else None

    @property
    def path(self) -> list[TrendPost]:
        """The first post of each channel, in the order of time."""
        firsts: dict[int, TrendPost] = {}
        for post in self.posts:
            firsts.setdefault(post.channel_id, post)
        return list(firsts.values())
