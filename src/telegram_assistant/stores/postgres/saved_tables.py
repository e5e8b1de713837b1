"""Tables of saved searches: what somebody wants to be told of, and what was found for them."""

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
    func,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from telegram_assistant.stores.postgres.tables import metadata


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def _owner(column: str, table: str) -> Column[object]:
    return Column(column, UUID, ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False)


saved_searches = Table(
    "saved_searches",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    _owner("tenant_id", "tenants"),
    _owner("user_id", "users"),
    Column("name", Text, nullable=False),
    Column("query", Text, nullable=False),
    Column("web", Boolean, nullable=False, server_default=text("true")),  # counts as unread on the page
    Column("webhook_url", Text),
    Column("webhook_secret", LargeBinary),  # sealed
    Column("muted", Boolean, nullable=False, server_default=text("false")),
    _now("created_at"),
    _now("checked_at"),  # all documents that changed before were looked at
    Index(None, "tenant_id", "user_id", "created_at"),
    Index(None, "user_id"),
)

# One row for a saved search and a post: so a post is told of once, whatever happens.
search_alerts = Table(
    "search_alerts",
    metadata,
    Column("search_id", UUID, ForeignKey("saved_searches.id", ondelete="CASCADE"), primary_key=True),
    Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True),
    _owner("tenant_id", "tenants"),
    Column("story_of", UUID),  # the post of this search that told the story before: nobody is told again
    _now("found_at"),
    Column("read_at", DateTime(timezone=True)),
    Column("state", Text, nullable=False, server_default="shown"),  # of the webhook: shown | waiting | delivered | dead
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    _now("due_at"),
    Column("delivered_at", DateTime(timezone=True)),
    Column("error", Text, nullable=False, server_default=""),
    CheckConstraint("state IN ('shown', 'waiting', 'delivered', 'dead')", name="state"),
    Index(None, "post_id"),
    Index(None, "tenant_id", "found_at"),
    Index("ix_search_alerts_waiting", "due_at", postgresql_where=text("state = 'waiting'")),
)
