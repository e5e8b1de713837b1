"""How much room each tenant took, over time."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, Table, Text
from sqlalchemy.dialects.postgresql import UUID

from telegram_assistant.stores.postgres.tables import metadata

storage_usage = Table(
    "storage_usage",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("measured_at", DateTime(timezone=True), primary_key=True),
    Column("kind", Text, primary_key=True),  # posts | versions | media | vision | pages | search
    Column("bytes", BigInteger, nullable=False),
    Column("objects", BigInteger, nullable=False),
)
