"""Telegram accounts: sealed sessions, how the accounts are, their floods, and the access hashes that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.moments import as_utc
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.tables import SYSTEM_TENANT
from telegram_assistant.stores.sealed import Sealer

LONGEST_ERROR = 500

AccountStatus = Literal["active", "revoked", "banned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account's row. Its session stays sealed; `TelegramAccounts.session` opens it."""

    id: str
    tenant_id: UUID
    telegram_user_id: int
    name: str
    session: bytes = field(repr=False)
    status: AccountStatus
    last_error: str | None
    floods: Mapping[str, datetime]  # by method, when it may be asked again
    created_at: datetime


COLUMNS = ", ".join(Account.__dataclass_fields__)


def _account(row: Row[Any]) -> Account:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it begins with an underscore
    values["id"] = str(row.id)
    values["floods"] = {method: as_utc(datetime.fromisoformat(until)) for method, until in row.floods.items()}
    return Account(**values)


class TelegramAccounts:
    """The accounts of the system. What enters as a session is stored encrypted, and never in clear."""

    def __init__(self, database: AsyncEngine, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer

    async def add(
        self, *, telegram_user_id: int, name: str, session: str, tenant_id: UUID | str = SYSTEM_TENANT
    ) -> Account:
        """A new account, or a new session of a known one. Floods stay: Telegram means the account, not the session."""
        statement = text(
            "INSERT INTO telegram_accounts AS known (tenant_id, telegram_user_id, name, session)"
            " VALUES (CAST(:tenant_id AS uuid), :user, :name, :session) ON CONFLICT (telegram_user_id) DO UPDATE"
            " SET name = excluded.name, session = excluded.session, status = 'active', last_error = NULL"
            f" WHERE known.tenant_id = excluded.tenant_id RETURNING {COLUMNS}"
        )
        sealed = self._sealer.seal(session, owner=str(telegram_user_id))
        values = {"tenant_id": str(tenant_id), "user": telegram_user_id, "name": name, "session": sealed}
        async with self._database.begin() as connection:
            row = (await connection.execute(statement, values)).first()
        if row is None:
            raise Reject(f"The Telegram account {name} belongs to another tenant: remove it there first")
        return _account(row)

    def session(self, account: Account) -> str:
        """The session in clear. Raises Fatal when it was sealed with another key."""
        return self._sealer.unseal(account.session, owner=str(account.telegram_user_id))

    async def all(self) -> list[Account]:
        async with self._database.connect() as connection:
            rows = await connection.execute(text(f"SELECT {COLUMNS} FROM telegram_accounts ORDER BY created_at, id"))
            return [_account(row) for row in rows]

    async def get(self, account_id: str) -> Account | None:
        statement = text(f"SELECT {COLUMNS} FROM telegram_accounts WHERE id = CAST(:id AS uuid)")
        async with self._database.connect() as connection:
            row = (await connection.execute(statement, {"id": account_id})).first()
        return None if row is None else _account(row)

    async def remove(self, account_id: str) -> bool:
        """Forget an account with its session, and with the access hashes that nobody else can use."""
        async with self._database.begin() as connection:
            await connection.execute(
                text("UPDATE channels SET access_hash = access_hash - :id WHERE jsonb_exists(access_hash, :id)"),
                {"id": account_id},
            )
            result = await connection.execute(
                text("DELETE FROM telegram_accounts WHERE CAST(id AS text) = lower(:id)"), {"id": account_id}
            )
        return bool(result.rowcount)

    async def end(self, account: Account) -> None:
        """Write down why an account is of no use, unless somebody has logged in with it again since then."""
        statement = text(
            "UPDATE telegram_accounts SET status = :status, last_error = :error"
            " WHERE id = CAST(:id AS uuid) AND session = :session"
        )
        error = account.last_error and account.last_error[:LONGEST_ERROR]
        values = {"id": account.id, "session": account.session, "status": account.status, "error": error}
        async with self._database.begin() as connection:
            await connection.execute(statement, values)

    async def remember_flood(self, account_id: str, method: str, *, until: datetime, now: datetime) -> None:
        """Write a wait down, so that no process asks too early after a restart. One that is over is dropped."""
        find = text("SELECT floods FROM telegram_accounts WHERE id = CAST(:id AS uuid) FOR UPDATE")
        write = text(
            "UPDATE telegram_accounts SET floods = CAST(:floods AS jsonb) WHERE id = CAST(:id AS uuid)"
        ).bindparams(bindparam("floods", type_=JSONB))
        async with self._database.begin() as connection:
            row = (await connection.execute(find, {"id": account_id})).first()
            if row is None:
                return
            floods = {name: datetime.fromisoformat(end) for name, end in row.floods.items()}
            floods[method] = max(until, floods.get(method, until))
            kept = {name: as_utc(end).isoformat() for name, end in floods.items() if end > now}
            await connection.execute(write, {"id": account_id, "floods": kept})

    async def remember_hash(self, account_id: str, channel_id: int, access_hash: int) -> None:
        """An access hash is valid for the account that got it, and for no other."""
        statement = text(
            "UPDATE channels SET access_hash = access_hash || jsonb_build_object(CAST(:account AS text),"
            " CAST(:hash AS bigint)) WHERE id = :id"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": channel_id, "account": account_id, "hash": access_hash})

    async def forget_hash(self, account_id: str, channel_id: int, access_hash: int) -> None:
        """Telegram does not take this hash any more. One that was written since then stays."""
        statement = text(
            "UPDATE channels SET access_hash = access_hash - CAST(:account AS text)"
            " WHERE id = :id AND access_hash -> CAST(:account AS text) = to_jsonb(CAST(:hash AS bigint))"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": channel_id, "account": account_id, "hash": access_hash})
