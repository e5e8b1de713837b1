"""Tables of alerts: posts that somebody watches, what is told, and where it is sent."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from telegram_assistant.stores.postgres.tables import metadata


def _id() -> Column[object]:
    return Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid())


def _text(name: str, default: str = "") -> Column[object]:
    return Column(name, Text, nullable=False, server_default=default)


def _time(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True))


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def _owner(column: str, table: str, *, required: bool = True) -> Column[object]:
    return Column(column, UUID, ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=not required)


def _number(name: str, default: int) -> Column[object]:
    return Column(name, Integer, nullable=False, server_default=text(str(default)))


def _json(name: str) -> Column[object]:
    return Column(name, JSONB, nullable=False, server_default=text("'{}'"))


# The post is no foreign key: where deletions are mirrored the row goes, and that is what is to be told.
watched_posts = Table(
    "watched_posts",
    metadata,
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("post_id", UUID, primary_key=True),
    _owner("tenant_id", "tenants"),
    _text("title"),  # of its channel
    _text("url"),
    _number("version", 1),  # that its watcher knows
    Column("deleted", Boolean, nullable=False, server_default=text("false")),  # as its watcher knows
    _now("created_at"),
    Index(None, "post_id"),
    Index(None, "tenant_id"),
)

notices = Table(
    "notices",
    metadata,
    _id(),
    _owner("tenant_id", "tenants"),
    _owner("user_id", "users", required=False),  # null: for all of the tenant
    _text("topic", "post"),
    _text("key"),  # what it is about: there is one at a time
    _text("state", "told"),  # waiting: not for long enough yet | open | resolved | told: it happened, and that is it
    _json("content"),
    _now("since"),
    _now("opened_at"),
    _time("resolved_at"),
    _time("read_at"),
    CheckConstraint("topic IN ('post', 'channel', 'storage')", "topic"),
    CheckConstraint("state IN ('waiting', 'open', 'resolved', 'told')", "state"),
    Index("uq_notices_live", "tenant_id", "key", unique=True, postgresql_where=text("state IN ('waiting', 'open')")),
    Index(None, "tenant_id", "opened_at", "id"),
    Index(None, "user_id"),
)

alert_channels = Table(
    "alert_channels",
    metadata,
    _id(),
    _owner("tenant_id", "tenants"),
    _text("kind", "slack"),
    _text("name"),
    _text("hint"),  # of the secret: enough to recognise it
    Column("secret", LargeBinary, nullable=False),  # sealed
    Column("topics", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    _now("created_at"),
    CheckConstraint("kind IN ('slack', 'pagerduty', 'webhook')", "kind"),
    Index(None, "tenant_id"),
)

alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    _id(),
    _owner("channel_id", "alert_channels"),
    _owner("tenant_id", "tenants"),
    _text("dedup_key"),
    _text("action", "trigger"),
    _json("content"),
    _text("state", "waiting"),
    _number("attempts", 0),
    _now("due_at"),
    _now("created_at"),
    _time("delivered_at"),
    _text("error"),
    CheckConstraint("action IN ('trigger', 'resolve')", "action"),
    CheckConstraint("state IN ('waiting', 'delivered', 'dead')", "state"),
    UniqueConstraint("channel_id", "dedup_key", "action"),
    Index(None, "tenant_id", "created_at"),
    Index("ix_alert_deliveries_waiting", "due_at", postgresql_where=text("state = 'waiting'")),
)
