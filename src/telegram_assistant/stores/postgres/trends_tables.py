"""Tables of trends: what rose for a tenant, and in which posts."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, DateTime, Float, ForeignKey, Index, Integer, Table, Text, func
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from telegram_assistant.stores.postgres.tables import metadata


def _time(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False)


def _owner(column: str, table: str) -> Column[object]:
    return Column(column, UUID, ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False)


# One row for an event, as long as it goes on.
trends = Table(
    "trends",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    _owner("tenant_id", "tenants"),
    Column("kind", Text, nullable=False),  # topic | entity | phrase
    Column("key", Text, nullable=False),
    Column("subjects", JSONB, nullable=False),  # all that rose with it, the strongest first: kind, key, score
    Column("state", Text, nullable=False, server_default="daily"),  # emerging: seen during the day only, so far
    Column("score", Float, nullable=False),  # the highest so far
    Column("mentions", Integer, nullable=False),  # in the window it was last seen in
    Column("expected", Float, nullable=False),
    Column("channels", Integer, nullable=False),  # independent ones
    Column("counts", ARRAY(Integer), nullable=False),  # of the same hours of each day, the oldest first
    Column("baseline_days", Integer, nullable=False),
    _time("window_start"),
    _time("window_end"),
    _time("first_at"),  # of its posts
    _time("last_at"),
    _time("found_at"),  # the end of the first window it was seen in
    CheckConstraint("state IN ('emerging', 'daily')", name="state"),
    Index(None, "tenant_id", "window_end", "id"),
)

trend_posts = Table(
    "trend_posts",
    metadata,
    Column("trend_id", UUID, ForeignKey("trends.id", ondelete="CASCADE"), primary_key=True),
    Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True),
    _owner("tenant_id", "tenants"),
    Column("source_id", UUID),  # the post that it copies or forwards
    Index(None, "post_id"),
    Index(None, "tenant_id"),
)
