"""What the API says of channels."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from telegram_assistant.domain.channel import SENTENCES, advise
from telegram_assistant.domain.ledger import LedgerState
from telegram_assistant.domain.thresholds import GapReport
from telegram_assistant.ingest.explaining import Explained
from telegram_assistant.services.channels import FIRST_YEAR, LONGEST_REFERENCE
from telegram_assistant.stores.postgres.watched_channels import Request, Watched

MOST_HOLES = 100

CHANNEL_EXAMPLE: dict[str, Any] = {
    "id": 1_006_503_122,
    "username": "durov",
    "title": "Du Rove's Channel",
    "about": "Thoughts from the CEO of Telegram.",
    "is_group": False,
    "private": False,
    "subscribers": 11_000_000,
    "status": "active",
    "priority": 0,
    "timezone": "Europe/Moscow",
    "captured": 341,
    "unknown": 0,
    "proven_up_to": 402,
    "percent": 100.0,
    "filling": False,
    "hidden_up_to": 0,
    "protected": False,
    "last_post_at": "2026-11-14T09:30:00Z",
    "last_visit_at": "2026-11-15T08:00:04Z",
    "next_visit_at": "2026-11-15T08:21:30Z",
    "failures": 0,
    "error": None,
    "what_to_do": None,
}


class ChannelAnswer(BaseModel):
    """A channel that you watch, and how completely it is known."""

    model_config = ConfigDict(json_schema_extra={"examples": [CHANNEL_EXAMPLE]})

    id: int = Field(description="Telegram's own id, without -100.")
    username: str | None
    title: str
    about: str
    is_group: bool
    private: bool = Field(description="Only your tenant sees it.")
    subscribers: int | None
    status: Literal["active", "dead"] = Field(description="dead: it was given up after many failures.")
    priority: int
    timezone: str
    captured: int = Field(description="Posts that are stored.")
    unknown: int = Field(description="Requested message ids that nobody can speak for yet.")
    proven_up_to: int = Field(description="Every requested message id up to this one is known.")
    percent: float = Field(description="Known share of the requested ids; 100 only when nothing is unknown.")
    filling: bool = Field(description="Older posts are on their way.")
    hidden_up_to: int = Field(
        description="A group hides what was said before our accounts joined: up to this message id. 0: nothing."
    )
    protected: bool = Field(description="Its owner forbids to forward and save its content (Telegram's noforwards).")
    last_post_at: datetime | None
    last_visit_at: datetime | None = Field(description="The last one that succeeded.")
    next_visit_at: datetime | None
    failures: int = Field(description="Visits in a row that failed.")
    error: str | None
    what_to_do: str | None

    @classmethod
    def of(cls, channel: Watched) -> ChannelAnswer:
        given_up = channel.status == "dead"
        return cls(
            **{name: getattr(channel, name) for name in _SAME},
            last_visit_at=channel.last_success_at,
            error=channel.last_error,
            what_to_do=SENTENCES[advise(channel.last_error, given_up=given_up)] or None,
        )


_SAME = tuple(set(ChannelAnswer.model_fields) - {"last_visit_at", "error", "what_to_do"})


class ChannelPage(BaseModel):
    """Some of your channels, by title."""

    items: list[ChannelAnswer]
    next: str | None = Field(description="Send it as `cursor` for the following page; null: this is the last.")


class RequestAnswer(BaseModel):
    """Your wish to watch a channel, until Telegram has confirmed that it exists."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": 12,
                    "reference": "@durov",
                    "state": "requested",
                    "channel_id": None,
                    "attempts": 0,
                    "error": None,
                    "what_to_do": None,
                }
            ]
        }
    )

    id: int
    reference: str
    state: Literal["requested", "failed", "watched"] = Field(description="failed: not yet; it is tried again later.")
    channel_id: int | None
    attempts: int
    error: str | None
    what_to_do: str | None

    @classmethod
    def of(cls, request: Request) -> RequestAnswer:
        return cls(
            id=request.id,
            reference=request.reference,
            state=state_of(request),
            channel_id=request.channel_id,
            attempts=request.attempts,
            error=request.last_error,
            what_to_do=SENTENCES[advise(request.last_error)] or None,
        )


def state_of(request: Request) -> Literal["requested", "failed", "watched"]:
    if request.channel_id is not None:
        return "watched"
    return "failed" if request.last_error else "requested"


class RequestList(BaseModel):
    """Wishes that are still open, newest first."""

    items: list[RequestAnswer]


class PreviewAnswer(BaseModel):
    """What is known of a channel before you watch it."""

    reference: str = Field(description="As we write it.")
    state: Literal["watched", "requested", "failed", "known", "unknown"] = Field(
        description="known: its title is known here already; unknown: Telegram is asked when you add it."
    )
    channel_id: int | None = None
    username: str | None = None
    title: str | None = None
    about: str | None = None
    subscribers: int | None = None
    request: RequestAnswer | None = None


class NewChannel(BaseModel):
    """Which channel to watch."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reference": "@durov"}]})

    reference: str = Field(min_length=1, max_length=LONGEST_REFERENCE, description="@name, a t.me link, or an id.")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError("is not the name of a time zone such as Europe/Moscow") from exc
    return name


class ChannelChange(BaseModel):
    """What an admin changes; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"priority": 10}]})

    priority: int | None = Field(None, ge=-1000, le=1000, description="Higher is visited first, and more often.")
    timezone: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_zone)] | None = Field(
        None, description="Where the channel lives: its nights and weekends are quiet."
    )


class HistoryRequest(BaseModel):
    """How much of the history to fetch: from a moment on, or all of it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"since": "2024-01-01T00:00:00Z"}, {"all": True}]})

    since: datetime | None = None
    all: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> HistoryRequest:
        if (self.since is not None) == self.all:
            raise ValueError("say either since or all")
        if self.since is not None and (self.since.tzinfo is None or self.since.year < FIRST_YEAR):
            raise ValueError(f"since needs a time zone, and a year from {FIRST_YEAR} on")
        return self


class VisitAnswer(BaseModel):
    """What was asked for, and how to see it happen."""

    channel_id: int
    next_visit_at: datetime | None
    follow: str = Field(description="Read this to see how far it is.")


class LedgerAnswer(BaseModel):
    """What is known of every message id of a channel."""

    newest_id: int
    captured: int
    empty: int = Field(description="Ids that are proven to hold no post: deleted, or never used.")
    unknown: int
    hidden: int = Field(description="Ids up to `hidden_up_to` of which the group shows our accounts nothing.")
    hidden_up_to: int
    not_requested: int
    requested_from: int
    proven_up_to: int
    percent: float
    holes: list[tuple[int, int]] = Field(description=f"Unknown ids, first and last; at most {MOST_HOLES} of them.")
    more_holes: int

    @classmethod
    def of(cls, state: LedgerState) -> LedgerAnswer:
        holes = [(start, stop - 1) for start, stop in state.gaps]
        return cls(
            newest_id=state.newest_id,
            captured=state.captured,
            empty=state.empty,
            unknown=state.unknown,
            hidden=state.hidden,
            hidden_up_to=state.hidden_up_to,
            not_requested=state.not_requested,
            requested_from=state.requested_from,
            proven_up_to=state.proven_up_to,
            percent=state.percent,
            holes=holes[:MOST_HOLES],
            more_holes=max(0, len(holes) - MOST_HOLES),
        )


class ExplainAnswer(BaseModel):
    """When a channel is looked at next, and why then."""

    next_visit_at: datetime | None
    why: str = Field(
        description="failing, given_up, due, every_tick, unplanned, postponed, rhythm or unreadable (learned anew)."
    )
    sentences: list[str]
    posts_a_day: float | None = None
    expected_posts: float | None = Field(None, description="How many posts the next look should find.")

    @classmethod
    def of(cls, explained: Explained) -> ExplainAnswer:
        decision = explained.decision
        return cls(
            next_visit_at=explained.at,
            why=explained.why,
            sentences=explained.sentences(),
            posts_a_day=decision.posts_a_day if decision else None,
            expected_posts=decision.waiting if decision else None,
        )


class RhythmAnswer(BaseModel):
    """When a channel posts."""

    timezone: str
    since: datetime = Field(description="Posts from then on were counted.")
    posts: list[list[int]] = Field(description="By weekday, Monday first, and hour; an album is one post.")
    silent_seconds: float | None = Field(description="How long it has been silent.")
    threshold_seconds: float | None = Field(description="Longer than this would be unusual now.")
    quiet: str | None = Field(description="weekend, night_hours or normal: whether few posts are expected now.")

    @classmethod
    def of(cls, channel: Watched, since: datetime, posts: list[list[int]], gap: GapReport | None) -> RhythmAnswer:
        return cls(
            timezone=channel.timezone,
            since=since,
            posts=posts,
            silent_seconds=gap.gap.total_seconds() if gap else None,
            threshold_seconds=gap.threshold.total_seconds() if gap else None,
            quiet=gap.quiet_hours.reason if gap else None,
        )
