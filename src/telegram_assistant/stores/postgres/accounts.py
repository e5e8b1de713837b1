"""Telegram accounts: sealed sessions, how the accounts are, their floods, and the access hashes that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.moments import as_utc
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.posts import times_in
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
    session_digest: str | None = field(repr=False)
    status: AccountStatus
    last_error: str | None
    floods: Mapping[str, datetime]  # by method, when it may be asked again
    created_at: datetime


COLUMNS = ", ".join(Account.__dataclass_fields__)


def _account(row: Row[Any]) -> Account:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it begins with an underscore
    values["id"] = str(row.id)
    values["floods"] = {method: as_utc(until) for method, until in times_in(row.floods).items()}
    return Account(**values)


def session_digest(session: str) -> str:
    """By it a session is known to those who have another key. It has 256 random bytes, so this tells nothing."""
    return sha256(session.strip().encode()).hexdigest()


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
            "INSERT INTO telegram_accounts AS known (tenant_id, telegram_user_id, name, session, session_digest)"
            " VALUES (CAST(:tenant_id AS uuid), :user, :name, :session, :digest)"
            " ON CONFLICT (telegram_user_id) DO UPDATE SET name = excluded.name, session = excluded.session,"
            " session_digest = excluded.session_digest, status = 'active', last_error = NULL"
            f" WHERE known.tenant_id = excluded.tenant_id RETURNING {COLUMNS}"
        )
        sealed = self._sealer.seal(session, owner=str(telegram_user_id))
        values = {"tenant_id": str(tenant_id), "user": telegram_user_id, "name": name, "session": sealed}
        values["digest"] = session_digest(session)
        async with self._database.begin() as connection:
            row = (await connection.execute(statement, values)).first()
        if row is None:
            raise Reject(f"The Telegram account {name} belongs to another tenant: remove it there first")
        return _account(row)

    def session(self, account: Account) -> str:
        """The session in clear. Raises Fatal when it was sealed with another key."""
        return self._sealer.unseal(account.session, owner=str(account.telegram_user_id))

    async def remember_digest(self, account: Account, digest: str) -> None:
        """For a row that an earlier version wrote."""
        statement = text(
            "UPDATE telegram_accounts SET session_digest = :digest WHERE id = CAST(:id AS uuid) AND session = :session"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": account.id, "session": account.session, "digest": digest})

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
            await connection.execute(
                text("DELETE FROM leases WHERE name = 'account:' || lower(:id)"), {"id": account_id}
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
            floods = times_in(row.floods)
            floods[method] = max(until, floods.get(method, until))
            kept = {name: as_utc(end).isoformat() for name, end in floods.items() if end > now}
            await connection.execute(write, {"id": account_id, "floods": kept})

    async def who_waits(self, now: datetime, *, shown: int) -> dict[str, list[str]]:
        """What is held up by a method that no account may ask: a few names of each kind."""
        asked = "SELECT reference FROM channel_requests WHERE channel_id IS NULL ORDER BY id LIMIT :shown"
        due = (
            "SELECT coalesce('@' || username, title) FROM channels WHERE status = 'active' AND next_visit_at <= :now"
            " ORDER BY next_visit_at LIMIT :shown"
        )
        files = "SELECT 'post ' || post_id FROM post_media WHERE status = 'pending' LIMIT :shown"
        async with self._database.connect() as connection:
            found = {}
            for kind, statement in (("asked", asked), ("due", due), ("files", files)):
                values = {"shown": shown, **({"now": now} if kind == "due" else {})}
                found[kind] = [str(row[0]) for row in await connection.execute(text(statement), values)]
        return found

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
