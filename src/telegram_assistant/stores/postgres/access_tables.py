"""Tables of access: API keys, sessions of the page, one-time links, and the log of what was done.

Of a secret only its SHA-256 is kept; the role of tenants may not even read that.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from telegram_assistant.stores.postgres.tables import metadata


def _id() -> Column[object]:
    return Column("id", UUID, primary_key=True, server_default=text("gen_random_uuid()"))


def _tenant() -> Column[object]:
    return Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False)


def _user() -> Column[object]:
    return Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False)


def _time(name: str, *, required: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=not required)


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


api_keys = Table(
    "api_keys",
    metadata,
    _id(),
    _tenant(),
    _user(),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False, unique=True),  # of the token, to know it by
    Column("sha256", Text, nullable=False),
    Column("role", Text, CheckConstraint("role IN ('admin', 'member')", "role"), nullable=False),
    _now("created_at"),
    _time("last_used_at"),
    _time("expires_at"),
    _time("revoked_at"),
    Index(None, "tenant_id"),
    Index(None, "user_id"),
)

sessions = Table(
    "sessions",
    metadata,
    _id(),
    _tenant(),
    _user(),
    Column("sha256", Text, nullable=False, unique=True),
    Column("csrf", Text, nullable=False),
    _now("created_at"),
    _time("expires_at", required=True),
    _now("last_seen_at"),
    Column("user_agent", Text, nullable=False, server_default=""),
    Index(None, "tenant_id"),
    Index(None, "user_id"),
    Index(None, "expires_at"),
)

one_time_links = Table(
    "one_time_links",
    metadata,
    _id(),
    _tenant(),
    _user(),
    Column("sha256", Text, nullable=False, unique=True),
    Column("purpose", Text, CheckConstraint("purpose IN ('invite', 'reset')", "purpose"), nullable=False),
    _now("created_at"),
    _time("expires_at", required=True),
    _time("used_at"),
    Index(None, "tenant_id"),
    Index(None, "user_id"),
    Index(None, "expires_at"),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column("user_id", UUID, ForeignKey("users.id", ondelete="SET NULL")),
    _now("at"),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False, server_default=""),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Column("address", Text, nullable=False, server_default=""),  # of the network, where one is known
    Index(None, "tenant_id", "id"),
    Index(None, "user_id"),
)
