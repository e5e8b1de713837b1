"""Alerts as values: what they are about, what is said, and where they go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

LONGEST_NAME = 100
MOST_CHANNELS = 20  # of one tenant
MOST_WATCHED = 500  # of one user


class Topic(StrEnum):
    """What an alert is about."""

    SEARCH = "search"  # a saved search found a post
    POST = "post"  # a watched post was edited or deleted
    CHANNEL = "channel"  # a channel is in trouble
    STORAGE = "storage"  # the quota is nearly used up


class Way(StrEnum):
    """Where alerts can be sent."""

    SLACK = "slack"
    PAGERDUTY = "pagerduty"
    WEBHOOK = "webhook"


class NoticeState(StrEnum):
    """Of something that lasts: waiting until it lasted long enough, open, resolved. What only happens is told."""

    WAITING = "waiting"
    OPEN = "open"
    RESOLVED = "resolved"
    TOLD = "told"


class Action(StrEnum):
    """What is sent."""

    TRIGGER = "trigger"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is wrong now."""

    tenant_id: UUID
    key: str
    content: Mapping[str, Any]
    patience: timedelta  # so long it may be wrong before an alert is sent
    left: int = 0  # of what has still to be done: while that gets less, nothing is stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What was told."""

    id: UUID
    tenant_id: UUID
    user_id: UUID | None
    topic: Topic
    key: str
    state: NoticeState
    content: Mapping[str, Any]
    since: datetime
    opened_at: datetime
    resolved_at: datetime | None
    read_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChannel:
    """A place of a tenant that alerts are sent to."""

    id: UUID
    tenant_id: UUID
    kind: Way
    name: str
    hint: str
    topics: tuple[Topic, ...]
    enabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Something that is sent to a place, or was."""

    id: UUID
    channel_id: UUID
    tenant_id: UUID
    dedup_key: str
    action: Action
    content: Mapping[str, Any]
    state: str  # waiting | delivered | dead
    attempts: int
    due_at: datetime
    created_at: datetime
    delivered_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An alert in words, for any place."""

    topic: Topic
    action: Action
    dedup_key: str
    title: str
    text: str = ""
    url: str | None = None
    severity: str = "info"  # info | warning | error | critical: PagerDuty's words
    at: datetime
    details: Mapping[str, str] = field(default_factory=dict)
