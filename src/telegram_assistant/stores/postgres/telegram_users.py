"""Which Telegram user is which user of ours. The tenant follows from here, never from what somebody types."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import Caller, Role, Via
from telegram_assistant.stores.postgres.database import as_tenant

_ACTIVE = "NOT disabled AND role <> 'system'"
# Two people who link the same Telegram user at once come one after the other.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('users.telegram_user_id', CAST(:telegram AS bigint)))"


class TelegramUsers:
    """The column `users.telegram_user_id`: each Telegram user speaks for one user at most, and the other way round."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def caller(self, telegram_user_id: int) -> Caller | None:
        """Who this is to us. None: a stranger, or somebody who was disabled."""
        statement = text(
            "SELECT u.tenant_id, t.name AS tenant, u.id, u.name, u.role"
            " FROM users u JOIN tenants t ON t.id = u.tenant_id"
            " WHERE u.telegram_user_id = :telegram AND NOT u.disabled AND u.role <> 'system'"
        )
        async with self._database.connect() as connection:
            row = (await connection.execute(statement, {"telegram": telegram_user_id})).first()
        if row is None:
            return None
        return Caller(
            tenant_id=row.tenant_id,
            tenant=row.tenant,
            user_id=row.id,
            name=row.name,
            role=Role(row.role),
            via=Via.KEY,  # like a key: there is no form that somebody else could fill in
        )

    async def link(self, tenant_id: UUID, user_id: UUID, telegram_user_id: int) -> bool:
        """From now on this Telegram user is this user, and nobody else. False: there is no such user (any more)."""
        values = {"tenant": tenant_id, "user": user_id, "telegram": telegram_user_id}
        async with self._database.begin() as connection:
            await connection.execute(text(_LOCK), values)
            await connection.execute(
                text("UPDATE users SET telegram_user_id = NULL WHERE telegram_user_id = :telegram AND id <> :user"),
                values,
            )
            done = await connection.execute(
                text(
                    "UPDATE users SET telegram_user_id = :telegram"
                    f" WHERE id = :user AND tenant_id = :tenant AND {_ACTIVE}"
                ),
                values,
            )
            if not done.rowcount:
                await connection.rollback()
            return bool(done.rowcount)

    async def unlink(self, tenant_id: UUID, user_id: UUID) -> bool:
        """False: there was no link."""
        statement = text(
            "UPDATE users SET telegram_user_id = NULL"
            " WHERE id = :user AND tenant_id = :tenant AND telegram_user_id IS NOT NULL"
        )
        async with self._database.begin() as connection:
            return bool((await connection.execute(statement, {"tenant": tenant_id, "user": user_id})).rowcount)

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> int | None:
        """Whom to write to. None: not linked, or disabled."""
        statement = text(f"SELECT telegram_user_id FROM users WHERE id = :user AND {_ACTIVE}")
        async with as_tenant(self._database, tenant_id) as connection:
            found: int | None = (await connection.execute(statement, {"user": user_id})).scalar_one_or_none()
        return found

    async def admins(self, tenant_id: UUID) -> list[UUID]:
        """The admins of a tenant who can be written to."""
        statement = text(
            f"SELECT id FROM users WHERE role = 'admin' AND telegram_user_id IS NOT NULL AND {_ACTIVE} ORDER BY id"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            return list((await connection.execute(statement)).scalars())
