"""Topics of forums: of a group, or of a channel's discussion group."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from telegram_assistant.domain.channel import MAX_CHANNEL_ID
from telegram_assistant.http.answers import FromValue, Items, example
from telegram_assistant.http.dependencies import ChannelsDep

router = APIRouter(prefix="/channels", tags=["channels"])

ChannelId = Annotated[int, Path(ge=1, le=MAX_CHANNEL_ID, description="Telegram's id, without -100.")]


class ThreadOut(FromValue):
    """A topic of a group that is a forum."""

    model_config = example(
        channel_id=1_234_567_890, id=42, title="Releases", closed=False, hidden=False, deleted_at=None
    )

    channel_id: int = Field(description="The group.")
    id: int = Field(description="The message that began it; 1: the general topic.")
    title: str
    closed: bool = Field(description="Only admins write there.")
    hidden: bool
    deleted_at: datetime | None = Field(description="Since when Telegram does not list it any more.")


@router.get("/{channel_id}/topics", operation_id="list_topics", summary="The topics of a forum")
async def list_topics(desk: ChannelsDep, channel_id: ChannelId) -> Items[ThreadOut]:
    """Of a group, or of a channel's discussion group; empty: it has none.

    `GET /posts?channel=…&thread=…` lists the posts of one: `channel` is its `channel_id` here, `thread` its `id`.
    """
    return Items(items=[ThreadOut.model_validate(one) for one in await desk.topics(channel_id)])
