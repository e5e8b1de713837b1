"""What the API says of alerts: notices, watched posts, and places that alerts are sent to."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from telegram_assistant.domain.alerting import LONGEST_NAME, Action, AlertChannel, Delivery, Notice, Topic, Way
from telegram_assistant.stores.postgres.watched_posts import WatchedPost

PLACE = "3f1c2f0e-8f7e-4c7b-9b6a-0d6f1a2b3c4d"


class NoticeOut(BaseModel):
    """Something that happened (`told`), or that lasts (`open` until it is `resolved`)."""

    id: UUID
    topic: Topic
    state: str
    content: dict[str, Any] = Field(description="What it is about; `code` says what happened.")
    for_all: bool = Field(description="It is for everybody of your tenant.")
    opened_at: datetime
    resolved_at: datetime | None
    read_at: datetime | None

    @classmethod
    def of(cls, notice: Notice) -> NoticeOut:
        return cls(
            id=notice.id,
            topic=notice.topic,
            state=notice.state.value,
            content={name: value for name, value in notice.content.items() if name != "left"},
            for_all=notice.user_id is None,
            opened_at=notice.opened_at,
            resolved_at=notice.resolved_at,
            read_at=notice.read_at,
        )


class NoticesOut(BaseModel):
    """The newest first."""

    items: list[NoticeOut]
    next: str | None
    unread: int


class WatchedPostOut(BaseModel):
    """A post that you watch: when it is edited or deleted you are told."""

    post_id: UUID
    channel: str
    url: str
    deleted: bool
    watched_since: datetime

    @classmethod
    def of(cls, post: WatchedPost) -> WatchedPostOut:
        return cls(
            post_id=post.post_id,
            channel=post.title,
            url=post.url,
            deleted=post.deleted,
            watched_since=post.created_at,
        )


class WatchedPostsOut(BaseModel):
    """At most 500, the newest first."""

    items: list[WatchedPostOut]


class PlaceIn(BaseModel):
    """A place for alerts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "slack", "value": "https://hooks.slack.com/services/T…/B…/…", "name": "#news"},
                {"kind": "pagerduty", "value": "0123456789abcdef0123456789abcdef", "topics": ["channel"]},
            ]
        }
    )

    kind: Way
    value: str = Field(
        max_length=2_000,
        description="slack: the address of an incoming webhook; pagerduty: the integration key of Events API v2;"
        " webhook: an https address of yours.",
    )
    name: str = Field("", max_length=LONGEST_NAME)
    topics: list[Topic] = Field(default_factory=list, max_length=10, description="Empty: what is usual for the kind.")


class PlaceChange(BaseModel):
    """Only what is given."""

    topics: list[Topic] | None = Field(None, min_length=1, max_length=10)
    enabled: bool | None = None


class PlaceOut(BaseModel):
    """A place that alerts are sent to. Its address or key is not shown again."""

    id: UUID = Field(examples=[PLACE])
    kind: Way
    name: str
    hint: str
    topics: list[Topic]
    enabled: bool

    @classmethod
    def of(cls, channel: AlertChannel) -> PlaceOut:
        return cls(
            id=channel.id,
            kind=channel.kind,
            name=channel.name,
            hint=channel.hint,
            topics=list(channel.topics),
            enabled=channel.enabled,
        )


class NewPlaceOut(PlaceOut):
    """With the secret that signs what is sent to a webhook, this once."""

    secret: str | None = None


class PlacesOut(BaseModel):
    """At most 20."""

    items: list[PlaceOut]


class DeliveryOut(BaseModel):
    """An alert on its way to a place."""

    place_id: UUID
    topic: str
    action: Action
    key: str
    state: str = Field(description="waiting, delivered, or dead: it is not tried any more.")
    attempts: int
    error: str
    created_at: datetime
    due_at: datetime
    delivered_at: datetime | None

    @classmethod
    def of(cls, one: Delivery) -> DeliveryOut:
        return cls(
            place_id=one.channel_id,
            topic=str(one.content.get("topic", "")),
            action=one.action,
            key=one.dedup_key,
            state=one.state,
            attempts=one.attempts,
            error=one.error,
            created_at=one.created_at,
            due_at=one.due_at,
            delivered_at=one.delivered_at,
        )


class DeliveriesOut(BaseModel):
    """The newest first."""

    items: list[DeliveryOut]
