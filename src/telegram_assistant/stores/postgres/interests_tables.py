"""The table of interests: what each user looks for and reads."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, DateTime, Float, ForeignKey, Index, Table, Text, func, text
from sqlalchemy.dialects.postgresql import UUID

from telegram_assistant.stores.postgres.tables import metadata


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def _number(name: str) -> Column[object]:
    return Column(name, Float, nullable=False, server_default=text("0"))


interests = Table(
    "interests",
    metadata,
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("topic", Text, primary_key=True),  # a topic of the taxonomy by its key, or a word of somebody's
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    _number("queries"),  # as they were at last_at: they fade
    _number("views"),
    Column("chosen", Float),  # a weight that the user set; null: by what is done
    _now("last_at"),
    _now("created_at"),
    CheckConstraint("chosen BETWEEN 0 AND 1", name="chosen"),
    Index(None, "tenant_id"),
)
