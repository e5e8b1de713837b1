"""One channel in detail: its ledger, its rhythm, why it is looked at then, and where two witnesses differ."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from telegram_assistant.http.answers import FromValue, Items
from telegram_assistant.http.api.channels import ChannelId, RequestId
from telegram_assistant.http.dependencies import AdminChannelsDep, ChannelsDep

MOST_HOLES = 100

router = APIRouter(prefix="/channels", tags=["channels"])


class LedgerAnswer(FromValue):
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
    holes: Annotated[list[tuple[int, int]], AfterValidator(lambda holes: holes[:MOST_HOLES])] = Field(
        description=f"Unknown ids, first and last; at most {MOST_HOLES} of them."
    )
    more_holes: Annotated[int, BeforeValidator(lambda holes: max(0, len(holes) - MOST_HOLES))] = Field(
        validation_alias=AliasPath("holes")
    )


class ExplainAnswer(BaseModel):
    """When a channel is looked at next, and why then."""

    next_visit_at: datetime | None
    why: str = Field(
        description="paused, failing, given_up, due, every_tick, unplanned, postponed, rhythm or unreadable"
        " (learned anew)."
    )
    sentences: list[str]
    posts_a_day: float | None = None
    expected_posts: float | None = Field(None, description="How many posts the next look should find.")


class DifferenceAnswer(BaseModel):
    """A post of which an account and the public preview of its channel tell different things."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    message_id: int
    kind: str = Field(description="text, only_account or only_preview.")
    account_text: str | None = Field(description="null: for the account it is not there.")
    preview_text: str | None = Field(description="null: for the preview it is not there.")
    first_at: datetime
    last_at: datetime
    agreed_at: datetime | None = Field(description="Since when both tell the same again.")
    seen_at: datetime | None = Field(description="When an admin of yours marked it as seen.")


class RhythmAnswer(BaseModel):
    """When a channel posts."""

    timezone: str
    since: datetime = Field(description="Posts from then on were counted.")
    posts: list[list[int]] = Field(description="By weekday, Monday first, and hour; an album is one post.")
    silent_seconds: float | None = Field(description="How long it has been silent.")
    threshold_seconds: float | None = Field(description="Longer than this would be unusual now.")
    quiet: str | None = Field(description="weekend, night_hours or normal: whether few posts are expected now.")


@router.get("/{channel_id}/ledger", operation_id="get_ledger", summary="What is known of every message id")
async def get_ledger(desk: ChannelsDep, channel_id: ChannelId) -> LedgerAnswer:
    return LedgerAnswer.model_validate(await desk.ledger(channel_id))


@router.get(
    "/{channel_id}/differences",
    operation_id="list_differences",
    summary="Where an account and the public preview tell different things",
)
async def list_differences(desk: ChannelsDep, channel_id: ChannelId) -> Items[DifferenceAnswer]:
    """First what you have not looked at yet. A difference stays until an admin closes it."""
    return Items(items=[DifferenceAnswer.model_validate(one) for one in await desk.disagreements(channel_id)])


@router.post(
    "/{channel_id}/differences/{difference_id}/seen",
    status_code=204,
    operation_id="mark_difference_seen",
    summary="Mark a difference as seen (admins)",
)
async def mark_difference_seen(desk: AdminChannelsDep, channel_id: ChannelId, difference_id: RequestId) -> None:
    """It stays in the list."""
    await desk.mark_seen(channel_id, difference_id)


@router.get("/{channel_id}/explain", operation_id="explain_channel", summary="When it is looked at next, and why")
async def explain_channel(desk: ChannelsDep, channel_id: ChannelId) -> ExplainAnswer:
    explained = await desk.explain(channel_id)
    decision = explained.decision
    return ExplainAnswer(
        next_visit_at=explained.at,
        why=explained.why,
        sentences=explained.sentences(),
        posts_a_day=decision.posts_a_day if decision else None,
        expected_posts=decision.waiting if decision else None,
    )


@router.get("/{channel_id}/rhythm", operation_id="get_rhythm", summary="When a channel posts, by weekday and hour")
async def get_rhythm(desk: ChannelsDep, channel_id: ChannelId) -> RhythmAnswer:
    channel = await desk.get(channel_id)
    rhythm = await desk.rhythm(channel)
    gap = rhythm.gap
    return RhythmAnswer(
        timezone=channel.timezone,
        since=rhythm.since,
        posts=rhythm.posts,
        silent_seconds=gap.gap.total_seconds() if gap else None,
        threshold_seconds=gap.threshold.total_seconds() if gap else None,
        quiet=gap.quiet_hours.reason if gap else None,
    )
