"""The log of what people did: never with a secret in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.text import clean_text
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_assistant.stores.postgres.jsonb import as_jsonb

LONGEST_TARGET = 500
LONGEST_ADDRESS = 100


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, when and from where."""

    id: int
    at: datetime
    user_id: UUID | None
    user: str | None  # None: the program itself, or somebody who is gone
    action: str
    target: str
    details: Mapping[str, Any]
    address: str


class AuditLog:
    """The table `audit_log`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def add(
        self,
        tenant_id: UUID,
        user_id: UUID | None,
        action: str,
        *,
        target: str = "",
        details: Mapping[str, Any] | None = None,
        address: str = "",
        now: datetime,
    ) -> None:
        statement = text(
            "INSERT INTO audit_log (tenant_id, user_id, at, action, target, details, address)"
            " VALUES (:tenant, :user, :now, :action, :target, CAST(:details AS jsonb), :address)"
        )
        clean = {
            name: clean_text(value) if isinstance(value, str) else value for name, value in (details or {}).items()
        }
        values = {
            "tenant": tenant_id,
            "user": user_id,
            "now": now,
            "action": action,
            "target": clean_text(target)[:LONGEST_TARGET],
            "details": as_jsonb(clean),
            "address": clean_text(address)[:LONGEST_ADDRESS],
        }
        async with self._database.begin() as connection:
            await connection.execute(statement, values)

    async def newest(self, tenant_id: UUID, *, limit: int, before: int | None = None) -> list[AuditEntry]:
        """Newest first."""
        statement = text(
            "SELECT l.id, l.at, l.user_id, u.name, l.action, l.target, l.details, l.address"
            " FROM audit_log l LEFT JOIN users u ON u.id = l.user_id AND u.role <> 'system'"
            " WHERE CAST(:before AS bigint) IS NULL OR l.id < :before ORDER BY l.id DESC LIMIT :limit"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(statement, {"limit": limit, "before": before})
            return [AuditEntry(*row) for row in rows]
