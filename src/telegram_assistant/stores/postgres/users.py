"""Tenants, their users, and the log of what these did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.access import Role
from telegram_assistant.domain.text import clean_text
from telegram_assistant.stores.postgres.database import Store, as_jsonb


@dataclass(frozen=True, slots=True)
class Tenant:
    """A group of people who see the same channels."""

    id: UUID
    name: str
    created_at: datetime
    users: int
    channels: int


@dataclass(frozen=True, slots=True)
class User:
    """A user of a tenant. Without a login the one-time link was not used yet."""

    id: UUID
    tenant_id: UUID
    name: str
    email: str | None
    login: str | None
    role: Role
    disabled: bool
    created_at: datetime

    @property
    def state(self) -> str:
        """`active | invited | disabled`."""
        return "disabled" if self.disabled else "active" if self.login else "invited"


@dataclass(frozen=True, slots=True)
class SignIn:
    """What a sign-in is checked against."""

    user_id: UUID
    tenant_id: UUID
    password_hash: str | None


_USER = "u.id, u.tenant_id, u.name, u.email, u.login, u.role, u.disabled, u.created_at"
_TENANTS = """
SELECT t.id, t.name, t.created_at,
  (SELECT count(*) FROM users u WHERE u.tenant_id = t.id AND u.role <> 'system') AS users,
  (SELECT count(DISTINCT s.channel_id) FROM subscriptions s WHERE s.tenant_id = t.id) AS channels
FROM tenants t
"""
# Other users who can let people in: admins with a password.
_OTHER_ADMINS = """
SELECT count(*) FROM users WHERE tenant_id = :tenant AND id <> :id AND role = 'admin' AND NOT disabled
  AND password_hash IS NOT NULL
"""


class Users(Store):
    """The tables `tenants` and `users`. What a caller asks for is read under row-level security."""

    async def tenants(self) -> list[Tenant]:
        return [Tenant(*row) for row in await self._rows(f"{_TENANTS} ORDER BY t.created_at, t.id")]

    async def tenant(self, name: str) -> Tenant | None:
        return await self._first(Tenant, f"{_TENANTS} WHERE t.name = :name", {"name": name})

    async def add_tenant(self, name: str) -> UUID | None:
        """None: there is one of this name already."""
        statement = "INSERT INTO tenants (name) VALUES (:name) ON CONFLICT DO NOTHING RETURNING id"
        added: UUID | None = await self._value(statement, {"name": name})
        return added

    async def of_tenant(self, tenant_id: UUID, *, limit: int, after: UUID | None = None) -> list[User]:
        """The people of a tenant, in the order in which they came."""
        statement = (
            f"SELECT {_USER} FROM users u WHERE u.role <> 'system' AND (CAST(:after AS uuid) IS NULL"
            " OR (u.created_at, u.id) > (SELECT a.created_at, a.id FROM users a WHERE a.id = :after))"
            " ORDER BY u.created_at, u.id LIMIT :limit"
        )
        return await self._all(User, statement, {"limit": limit, "after": after}, tenant=tenant_id)

    async def get(self, tenant_id: UUID, user_id: UUID) -> User | None:
        return await self._one(tenant_id, "u.id = :value", user_id)

    async def named(self, tenant_id: UUID, name: str) -> User | None:
        """By login, e-mail or name; a name may be that of several, then the oldest."""
        return await self._one(tenant_id, "lower(:value) IN (u.login, lower(u.email), lower(u.name))", name)

    async def _one(self, tenant_id: UUID, condition: str, value: object) -> User | None:
        statement = (
            f"SELECT {_USER} FROM users u WHERE u.role <> 'system' AND {condition} ORDER BY u.created_at, u.id LIMIT 1"
        )
        return await self._first(User, statement, {"value": value}, tenant=tenant_id)

    async def add(self, tenant_id: UUID, *, name: str, role: Role, email: str | None) -> UUID | None:
        """None: another user has this e-mail address."""
        statement = (
            "INSERT INTO users (tenant_id, name, role, email) VALUES (:tenant, :name, :role, :email)"
            " ON CONFLICT DO NOTHING RETURNING id"
        )
        values = {"tenant": tenant_id, "name": name, "role": role.value, "email": email}
        added: UUID | None = await self._value(statement, values)
        return added

    async def change(
        self, tenant_id: UUID, user_id: UUID, *, role: Role | None = None, disabled: bool | None = None
    ) -> bool:
        """False: this would leave the tenant without an admin who can let people in."""
        statement = text(
            "UPDATE users SET role = coalesce(:role, role), disabled = coalesce(:disabled, disabled)"
            " WHERE id = :id AND tenant_id = :tenant AND role <> 'system'"
        )
        weaker = role is Role.MEMBER or disabled is True
        values = {"id": user_id, "tenant": tenant_id, "role": role and role.value, "disabled": disabled}
        async with self._database.begin() as connection:
            # Two admins must not demote each other at the same moment.
            await connection.execute(text("SELECT id FROM tenants WHERE id = :id FOR UPDATE"), {"id": tenant_id})
            if weaker and await _is_last_admin(connection, tenant_id, user_id):
                return False
            await connection.execute(statement, values)
            if disabled:
                await connection.execute(text("DELETE FROM sessions WHERE user_id = :id"), values)
                await connection.execute(text("DELETE FROM one_time_links WHERE user_id = :id"), values)
        return True

    async def sign_in(self, login: str) -> SignIn | None:
        """Without a tenant: which one it is follows from the login."""
        statement = (
            "SELECT id AS user_id, tenant_id, password_hash FROM users"
            " WHERE login = :login AND NOT disabled AND role <> 'system'"
        )
        return await self._first(SignIn, statement, {"login": login})

    async def set_hash(self, user_id: UUID, password_hash: str, *, instead_of: str) -> None:
        """Better parameters for the same password; one that was changed meanwhile stays."""
        statement = "UPDATE users SET password_hash = :hash WHERE id = :id AND password_hash = :old"
        await self._run(statement, {"id": user_id, "hash": password_hash, "old": instead_of})


async def _is_last_admin(connection: AsyncConnection, tenant_id: UUID, user_id: UUID) -> bool:
    values = {"tenant": tenant_id, "id": user_id}
    is_admin = text("SELECT 1 FROM users WHERE id = :id AND tenant_id = :tenant AND role = 'admin' AND NOT disabled")
    if (await connection.execute(is_admin, values)).first() is None:
        return False
    return not (await connection.execute(text(_OTHER_ADMINS), values)).scalar_one()


LONGEST_TARGET = 500
LONGEST_ADDRESS = 100


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, when and from where."""

    id: int
    at: datetime
    user_id: UUID | None
    user: str | None  # None: the program itself, or a user who is gone
    action: str
    target: str
    details: Mapping[str, Any]
    address: str


class AuditLog(Store):
    """The table `audit_log`."""

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
        statement = (
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
        await self._run(statement, values)

    async def newest(self, tenant_id: UUID, *, limit: int, before: int | None = None) -> list[AuditEntry]:
        """Newest first."""
        statement = (
            "SELECT l.id, l.at, l.user_id, u.name, l.action, l.target, l.details, l.address"
            " FROM audit_log l LEFT JOIN users u ON u.id = l.user_id AND u.role <> 'system'"
            " WHERE CAST(:before AS bigint) IS NULL OR l.id < :before ORDER BY l.id DESC LIMIT :limit"
        )
        rows = await self._rows(statement, {"limit": limit, "before": before}, tenant=tenant_id)
        return [AuditEntry(*row) for row in rows]
