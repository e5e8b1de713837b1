"""API keys: who has which, and who calls with one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import Role
from telegram_assistant.stores.postgres.database import as_tenant

USE_NOTED_EVERY = timedelta(minutes=1)  # not a write for each request


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is listed: the secret itself is not kept."""

    id: UUID
    user_id: UUID
    user: str
    name: str
    prefix: str
    role: Role
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Whose a key is, if it is good for anything now; `sha256` is still to be compared."""

    sha256: str
    key_id: UUID
    key_role: Role
    last_used_at: datetime | None
    expires_at: datetime | None
    tenant_id: UUID
    tenant: str
    user_id: UUID
    name: str
    user_role: Role


_KEY = (
    "k.id, k.user_id, u.name, k.name, k.prefix, k.role, k.created_at, k.last_used_at, k.expires_at, k.revoked_at"
    " FROM api_keys k JOIN users u ON u.id = k.user_id"
)
_HOLDER = """
SELECT k.sha256, k.id, k.role, k.last_used_at, k.expires_at, t.id, t.name, u.id, u.name, u.role
FROM api_keys k JOIN users u ON u.id = k.user_id JOIN tenants t ON t.id = u.tenant_id
WHERE k.prefix = :prefix AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now)
  AND NOT u.disabled AND u.role <> 'system' AND k.tenant_id = u.tenant_id
"""


def _holder(*row: Any) -> KeyHolder:
    holder = KeyHolder(*row)
    return replace(holder, key_role=Role(holder.key_role), user_role=Role(holder.user_role))


def _key(*row: Any) -> ApiKey:
    key = ApiKey(*row)
    return replace(key, role=Role(key.role))


class Keys:
    """The table `api_keys`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def holder(self, prefix: str, *, now: datetime) -> KeyHolder | None:
        async with self._database.connect() as connection:
            row = (await connection.execute(text(_HOLDER), {"prefix": prefix, "now": now})).first()
        return None if row is None else _holder(*row)

    async def used(self, holder: KeyHolder, *, now: datetime) -> None:
        if holder.last_used_at is not None and now - holder.last_used_at < USE_NOTED_EVERY:
            return
        statement = text("UPDATE api_keys SET last_used_at = :now WHERE id = :id")
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": holder.key_id, "now": now})

    async def add(
        self,
        tenant_id: UUID,
        user_id: UUID,
        *,
        name: str,
        prefix: str,
        sha256: str,
        role: Role,
        expires: datetime | None,
    ) -> UUID:
        statement = text(
            "INSERT INTO api_keys (tenant_id, user_id, name, prefix, sha256, role, expires_at)"
            " VALUES (:tenant, :user, :name, :prefix, :sha256, :role, :expires) RETURNING id"
        )
        values = {"tenant": tenant_id, "user": user_id, "name": name, "prefix": prefix, "sha256": sha256}
        async with self._database.begin() as connection:
            result = await connection.execute(statement, {**values, "role": role.value, "expires": expires})
            return UUID(str(result.scalar_one()))

    async def find(
        self, tenant_id: UUID, user_id: UUID | None, *, limit: int, after: UUID | None = None
    ) -> list[ApiKey]:
        """Of one user, or of the whole tenant; newest first, revoked ones too."""
        statement = text(
            f"SELECT {_KEY} WHERE (CAST(:user AS uuid) IS NULL OR k.user_id = :user) AND (CAST(:after AS uuid) IS NULL"
            " OR (k.created_at, k.id) < (SELECT a.created_at, a.id FROM api_keys a WHERE a.id = :after))"
            " ORDER BY k.created_at DESC, k.id DESC LIMIT :limit"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(statement, {"user": user_id, "limit": limit, "after": after})
            return [_key(*row) for row in rows]

    async def get(self, tenant_id: UUID, key_id: UUID) -> ApiKey | None:
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(text(f"SELECT {_KEY} WHERE k.id = :id"), {"id": key_id})).first()
        return None if row is None else _key(*row)

    async def count(self, tenant_id: UUID, user_id: UUID) -> int:
        """Those that are not revoked."""
        statement = text("SELECT count(*) FROM api_keys WHERE user_id = :user AND revoked_at IS NULL")
        async with as_tenant(self._database, tenant_id) as connection:
            return int((await connection.execute(statement, {"user": user_id})).scalar_one())

    async def revoke(self, tenant_id: UUID, key_id: UUID, *, now: datetime) -> None:
        """The first time counts."""
        statement = text(
            "UPDATE api_keys SET revoked_at = :now WHERE id = :id AND tenant_id = :tenant AND revoked_at IS NULL"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": key_id, "tenant": tenant_id, "now": now})
