"""Searches that users keep, and what they found since: values only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

LONGEST_NAME = 200
LONGEST_QUERY = 1_000
MOST_SEARCHES = 100  # of one user


class DeliveryState(StrEnum):
    """How far an alert is on its way to the webhook; without one it is only shown."""

    SHOWN = "shown"
    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSearch:
    """A search that a user keeps."""

    id: UUID
    tenant_id: UUID
    user_id: UUID
    name: str
    query: str
    web: bool  # what it finds counts as unread
    webhook_url: str | None
    muted: bool
    created_at: datetime
    checked_at: datetime
    unread: int = 0
    dead: int = 0  # alerts that the webhook did not take


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A post that a saved search found."""

    search_id: UUID
    search_name: str
    post_id: UUID
    found_at: datetime
    read_at: datetime | None
    state: DeliveryState
    attempts: int
    due_at: datetime
    error: str
    also: int  # posts that told the same within a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """An alert that is to be sent."""

    search_id: UUID
    post_id: UUID
    tenant_id: UUID
    name: str
    query: str
    url: str
    secret: bytes  # sealed
    attempts: int
    found_at: datetime
