"""What lets a user in: API keys, sessions of a browser, and one-time links."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.access import SYSTEM_TENANT, Role
from telegram_assistant.stores.postgres.database import Store

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
    """The user of a key that is valid now; the caller still has to compare `sha256`."""

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
    "k.id, k.user_id, u.name AS user, k.name, k.prefix, k.role, k.created_at, k.last_used_at, k.expires_at,"
    " k.revoked_at FROM api_keys k JOIN users u ON u.id = k.user_id"
)
_OF_KEY = """
SELECT k.sha256, k.id AS key_id, k.role AS key_role, k.last_used_at, k.expires_at, t.id AS tenant_id,
  t.name AS tenant, u.id AS user_id, u.name, u.role AS user_role
FROM api_keys k JOIN users u ON u.id = k.user_id JOIN tenants t ON t.id = u.tenant_id
WHERE k.prefix = :prefix AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now)
  AND NOT u.disabled AND u.role <> 'system' AND k.tenant_id = u.tenant_id
"""


class Keys(Store):
    """The table `api_keys`."""

    async def holder(self, prefix: str, *, now: datetime) -> KeyHolder | None:
        return await self._first(KeyHolder, _OF_KEY, {"prefix": prefix, "now": now})

    async def used(self, holder: KeyHolder, *, now: datetime) -> None:
        if holder.last_used_at is not None and now - holder.last_used_at < USE_NOTED_EVERY:
            return
        statement = "UPDATE api_keys SET last_used_at = :now WHERE id = :id"
        await self._run(statement, {"id": holder.key_id, "now": now})

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
        statement = (
            "INSERT INTO api_keys (tenant_id, user_id, name, prefix, sha256, role, expires_at)"
            " VALUES (:tenant, :user, :name, :prefix, :sha256, :role, :expires) RETURNING id"
        )
        values = {"tenant": tenant_id, "user": user_id, "name": name, "prefix": prefix, "sha256": sha256}
        made: UUID = await self._value(statement, {**values, "role": role.value, "expires": expires})
        return made

    async def find(
        self, tenant_id: UUID, user_id: UUID | None, *, limit: int, after: UUID | None = None
    ) -> list[ApiKey]:
        """Of one user, or of the whole tenant; newest first, revoked ones too."""
        statement = (
            f"SELECT {_KEY} WHERE (CAST(:user AS uuid) IS NULL OR k.user_id = :user) AND (CAST(:after AS uuid) IS NULL"
            " OR (k.created_at, k.id) < (SELECT a.created_at, a.id FROM api_keys a WHERE a.id = :after))"
            " ORDER BY k.created_at DESC, k.id DESC LIMIT :limit"
        )
        values = {"user": user_id, "limit": limit, "after": after}
        return await self._all(ApiKey, statement, values, tenant=tenant_id)

    async def get(self, tenant_id: UUID, key_id: UUID) -> ApiKey | None:
        return await self._first(ApiKey, f"SELECT {_KEY} WHERE k.id = :id", {"id": key_id}, tenant=tenant_id)

    async def count(self, tenant_id: UUID, user_id: UUID) -> int:
        """Those that are not revoked."""
        statement = "SELECT count(*) FROM api_keys WHERE user_id = :user AND revoked_at IS NULL"
        return int(await self._value(statement, {"user": user_id}, tenant=tenant_id))

    async def revoke(self, tenant_id: UUID, key_id: UUID, *, now: datetime) -> None:
        """A key that was revoked before keeps its time."""
        statement = (
            "UPDATE api_keys SET revoked_at = :now WHERE id = :id AND tenant_id = :tenant AND revoked_at IS NULL"
        )
        await self._run(statement, {"id": key_id, "tenant": tenant_id, "now": now})


LASTS = timedelta(days=14)  # since it was last used
SEEN_NOTED_EVERY = timedelta(minutes=1)
FIRST_LINK_LOCK = 7_100_501  # of PostgreSQL's advisory locks: two starts at once make one link


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose session it is."""

    session_id: UUID
    csrf: str
    last_seen_at: datetime
    tenant_id: UUID
    tenant: str
    user_id: UUID
    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class NewSession:
    """What is stored of a session that begins."""

    sha256: str
    csrf: str
    user_agent: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Link:
    """A one-time link that can still be used, and whose it is."""

    tenant_id: UUID
    tenant: str
    user_id: UUID
    name: str
    login: str | None
    purpose: str  # invite | reset
    expires_at: datetime


_OF_SESSION = """
SELECT s.id AS session_id, s.csrf, s.last_seen_at, t.id AS tenant_id, t.name AS tenant, u.id AS user_id, u.name, u.role
FROM sessions s JOIN users u ON u.id = s.user_id JOIN tenants t ON t.id = u.tenant_id
WHERE s.sha256 = :sha256 AND s.expires_at > :now AND NOT u.disabled AND u.role <> 'system'
  AND s.tenant_id = u.tenant_id
"""
_OPEN_LINK = "l.sha256 = :sha256 AND l.used_at IS NULL AND l.expires_at > :now"
_LINK = f"""
SELECT t.id AS tenant_id, t.name AS tenant, u.id AS user_id, u.name, u.login, l.purpose, l.expires_at
FROM one_time_links l JOIN users u ON u.id = l.user_id JOIN tenants t ON t.id = u.tenant_id
WHERE {_OPEN_LINK} AND NOT u.disabled
"""
_USE_LINK = f"""
UPDATE one_time_links l SET used_at = :now FROM users u
WHERE {_OPEN_LINK} AND u.id = l.user_id AND NOT u.disabled RETURNING u.id, u.tenant_id
"""


class Sessions(Store):
    """The table `sessions`."""

    async def holder(self, sha256: str, *, now: datetime) -> Holder | None:
        """Using a session prolongs it."""
        holder = await self._first(Holder, _OF_SESSION, {"sha256": sha256, "now": now})
        if holder is not None and now - holder.last_seen_at >= SEEN_NOTED_EVERY:
            statement = "UPDATE sessions SET last_seen_at = :now, expires_at = :until WHERE id = :id"
            await self._run(statement, {"id": holder.session_id, "now": now, "until": now + LASTS})
        return holder

    async def begin(self, tenant_id: UUID, user_id: UUID, session: NewSession) -> None:
        async with self._database.begin() as connection:
            await _begin(connection, tenant_id, user_id, session)

    async def end(self, sha256: str) -> UUID | None:
        """Whose it was."""
        statement = "DELETE FROM sessions WHERE sha256 = :sha256 RETURNING user_id"
        user_id: UUID | None = await self._value(statement, {"sha256": sha256})
        return user_id

    async def end_all(self, tenant_id: UUID, user_id: UUID) -> int:
        statement = "DELETE FROM sessions WHERE user_id = :user AND tenant_id = :tenant"
        return await self._run(statement, {"user": user_id, "tenant": tenant_id})


class Links(Store):
    """The table `one_time_links`, and what using one does."""

    async def add(self, tenant_id: UUID, user_id: UUID, *, sha256: str, purpose: str, expires: datetime) -> None:
        """Older links of the user end."""
        async with self._database.begin() as connection:
            await _add_link(connection, tenant_id, user_id, sha256=sha256, purpose=purpose, expires=expires)

    async def add_first(self, *, sha256: str, expires: datetime) -> bool:
        """For the first admin, who is made here if need be. False: a user has a password already."""
        tenant_id = UUID(SYSTEM_TENANT)
        find = text(
            "SELECT id FROM users WHERE tenant_id = :tenant AND role = 'admin' AND NOT disabled"
            " ORDER BY created_at, id LIMIT 1"
        )
        make = text("INSERT INTO users (tenant_id, name, role) VALUES (:tenant, 'admin', 'admin') RETURNING id")
        async with self._database.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": FIRST_LINK_LOCK})
            if (await connection.execute(text("SELECT 1 FROM users WHERE password_hash IS NOT NULL LIMIT 1"))).first():
                return False
            user_id = (await connection.execute(find, {"tenant": tenant_id})).scalar_one_or_none()
            if user_id is None:
                user_id = (await connection.execute(make, {"tenant": tenant_id})).scalar_one()
            await _add_link(connection, tenant_id, user_id, sha256=sha256, purpose="invite", expires=expires)
        return True

    async def open(self, sha256: str, *, now: datetime) -> Link | None:
        return await self._first(Link, _LINK, {"sha256": sha256, "now": now})

    async def use(self, sha256: str, *, login: str | None, password_hash: str, session: NewSession) -> bool | None:
        """The password is set and a session begins, once. None: the link is not good; False: the login is taken."""
        try:
            async with self._database.begin() as connection:
                used = (await connection.execute(text(_USE_LINK), {"sha256": sha256, "now": session.now})).first()
                if used is None:
                    return None
                user_id, tenant_id = used
                statement = text(
                    "UPDATE users SET login = coalesce(:login, login), password_hash = :hash WHERE id = :user"
                )
                await connection.execute(statement, {"user": user_id, "login": login, "hash": password_hash})
                # Sessions that began with the old password end.
                await connection.execute(text("DELETE FROM sessions WHERE user_id = :user"), {"user": user_id})
                await _begin(connection, tenant_id, user_id, session)
        except IntegrityError as exc:
            if "uq_users_login" not in str(exc):
                raise
            return False
        return True


async def _begin(connection: AsyncConnection, tenant_id: UUID, user_id: UUID, session: NewSession) -> None:
    await connection.execute(text("DELETE FROM sessions WHERE expires_at < :now"), {"now": session.now})
    statement = text(
        "INSERT INTO sessions (tenant_id, user_id, sha256, csrf, created_at, expires_at, last_seen_at, user_agent)"
        " VALUES (:tenant, :user, :sha256, :csrf, :now, :until, :now, :agent)"
    )
    values = {"tenant": tenant_id, "user": user_id, "sha256": session.sha256, "csrf": session.csrf}
    times = {"now": session.now, "until": session.now + LASTS}
    await connection.execute(statement, {**values, **times, "agent": session.user_agent})


async def _add_link(
    connection: AsyncConnection, tenant_id: UUID, user_id: UUID, *, sha256: str, purpose: str, expires: datetime
) -> None:
    await connection.execute(text("DELETE FROM one_time_links WHERE user_id = :user"), {"user": user_id})
    statement = text(
        "INSERT INTO one_time_links (tenant_id, user_id, sha256, purpose, expires_at)"
        " VALUES (:tenant, :user, :sha256, :purpose, :expires)"
    )
    values = {"tenant": tenant_id, "user": user_id, "sha256": sha256, "purpose": purpose, "expires": expires}
    await connection.execute(statement, values)
