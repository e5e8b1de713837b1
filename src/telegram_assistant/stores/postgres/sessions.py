"""Sessions of the page, and the one-time links that lead to a password."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, Role

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


_HOLDER = """
SELECT s.id, s.csrf, s.last_seen_at, t.id, t.name, u.id, u.name, u.role
FROM sessions s JOIN users u ON u.id = s.user_id JOIN tenants t ON t.id = u.tenant_id
WHERE s.sha256 = :sha256 AND s.expires_at > :now AND NOT u.disabled AND u.role <> 'system'
  AND s.tenant_id = u.tenant_id
"""
_OPEN_LINK = "l.sha256 = :sha256 AND l.used_at IS NULL AND l.expires_at > :now"
_LINK = f"""
SELECT t.id, t.name, u.id, u.name, u.login, l.purpose, l.expires_at
FROM one_time_links l JOIN users u ON u.id = l.user_id JOIN tenants t ON t.id = u.tenant_id
WHERE {_OPEN_LINK} AND NOT u.disabled
"""
_USE_LINK = f"""
UPDATE one_time_links l SET used_at = :now FROM users u
WHERE {_OPEN_LINK} AND u.id = l.user_id AND NOT u.disabled RETURNING u.id, u.tenant_id
"""


class Sessions:
    """The table `sessions`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def holder(self, sha256: str, *, now: datetime) -> Holder | None:
        """And the session lasts on from now."""
        async with self._database.connect() as connection:
            row = (await connection.execute(text(_HOLDER), {"sha256": sha256, "now": now})).first()
        if row is None:
            return None
        holder = _holder(*row)
        if now - holder.last_seen_at >= SEEN_NOTED_EVERY:
            statement = text("UPDATE sessions SET last_seen_at = :now, expires_at = :until WHERE id = :id")
            async with self._database.begin() as connection:
                await connection.execute(statement, {"id": holder.session_id, "now": now, "until": now + LASTS})
        return holder

    async def begin(self, tenant_id: UUID, user_id: UUID, session: NewSession) -> None:
        async with self._database.begin() as connection:
            await _begin(connection, tenant_id, user_id, session)

    async def end(self, sha256: str) -> UUID | None:
        """Whose it was."""
        statement = text("DELETE FROM sessions WHERE sha256 = :sha256 RETURNING user_id")
        async with self._database.begin() as connection:
            return (await connection.execute(statement, {"sha256": sha256})).scalar_one_or_none()

    async def end_all(self, tenant_id: UUID, user_id: UUID) -> int:
        statement = text("DELETE FROM sessions WHERE user_id = :user AND tenant_id = :tenant")
        async with self._database.begin() as connection:
            result = await connection.execute(statement, {"user": user_id, "tenant": tenant_id})
        return int(result.rowcount)


class Links:
    """The table `one_time_links`, and what using one does."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def add(self, tenant_id: UUID, user_id: UUID, *, sha256: str, purpose: str, expires: datetime) -> None:
        """In place of those that the user has."""
        async with self._database.begin() as connection:
            await _add_link(connection, tenant_id, user_id, sha256=sha256, purpose=purpose, expires=expires)

    async def add_first(self, *, sha256: str, expires: datetime) -> bool:
        """For the first admin, who is made here if need be. False: somebody has a password already."""
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
        async with self._database.connect() as connection:
            row = (await connection.execute(text(_LINK), {"sha256": sha256, "now": now})).first()
        return None if row is None else Link(*row)

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
                # Whoever was in with the old password is out.
                await connection.execute(text("DELETE FROM sessions WHERE user_id = :user"), {"user": user_id})
                await _begin(connection, tenant_id, user_id, session)
        except IntegrityError as exc:
            if "uq_users_login" not in str(exc):
                raise
            return False
        return True


def _holder(*row: Any) -> Holder:
    holder = Holder(*row)
    return replace(holder, role=Role(holder.role))


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
