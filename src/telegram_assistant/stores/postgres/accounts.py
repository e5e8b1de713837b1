"""Telegram accounts with their sealed sessions, and which process may use which account."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.accounts import Reach, Share, share
from telegram_assistant.domain.moments import as_utc
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import Store
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
    proxy: bytes | None = field(repr=False)  # sealed too; None: as the settings say
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
    """Finds the same session under another key. A session has 256 random bytes, so its digest gives nothing away."""
    return sha256(session.strip().encode()).hexdigest()


def _proxy_owner(telegram_user_id: int) -> str:
    return f"proxy of {telegram_user_id}"


class TelegramAccounts(Store):
    """The accounts of the system. What enters as a session is stored encrypted, and never in clear."""

    def __init__(self, database: AsyncEngine, sealer: Sealer) -> None:
        super().__init__(database)
        self._sealer = sealer

    async def add(
        self,
        *,
        telegram_user_id: int,
        name: str,
        session: str,
        tenant_id: UUID | str = SYSTEM_TENANT,
        proxy: str | None = None,
    ) -> Account:
        """A new account, or a new session of a known one. Floods and a proxy stay: they are the account's."""
        statement = (
            "INSERT INTO telegram_accounts AS known (tenant_id, telegram_user_id, name, session, session_digest, proxy)"
            " VALUES (CAST(:tenant_id AS uuid), :user, :name, :session, :digest, :proxy)"
            " ON CONFLICT (telegram_user_id) DO UPDATE SET name = excluded.name, session = excluded.session,"
            " session_digest = excluded.session_digest, status = 'active', last_error = NULL,"
            " proxy = coalesce(excluded.proxy, known.proxy)"
            f" WHERE known.tenant_id = excluded.tenant_id RETURNING {COLUMNS}"
        )
        sealed = self._sealer.seal(session, owner=str(telegram_user_id))
        values = {"tenant_id": str(tenant_id), "user": telegram_user_id, "name": name, "session": sealed}
        values |= {"digest": session_digest(session), "proxy": self._sealed_proxy(telegram_user_id, proxy)}
        row = await self._row(statement, values)
        if row is None:
            raise Reject(f"The Telegram account {name} belongs to another tenant: remove it there first")
        return _account(row)

    def session(self, account: Account) -> str:
        """The session in clear. Raises Fatal when it was sealed with another key."""
        return self._sealer.unseal(account.session, owner=str(account.telegram_user_id))

    def proxy(self, account: Account) -> str | None:
        """What this account is told to go through, in clear; None: what the settings say."""
        owner = _proxy_owner(account.telegram_user_id)
        return None if account.proxy is None else self._sealer.unseal(account.proxy, owner=owner)

    async def go_through(self, account: Account, proxy: str | None) -> None:
        statement = "UPDATE telegram_accounts SET proxy = :proxy WHERE id = CAST(:id AS uuid)"
        await self._run(statement, {"id": account.id, "proxy": self._sealed_proxy(account.telegram_user_id, proxy)})

    def _sealed_proxy(self, telegram_user_id: int, proxy: str | None) -> bytes | None:
        return self._sealer.seal(proxy, owner=_proxy_owner(telegram_user_id)) if proxy else None

    async def remember_digest(self, account: Account, digest: str) -> None:
        """For a row that an earlier version wrote."""
        statement = (
            "UPDATE telegram_accounts SET session_digest = :digest WHERE id = CAST(:id AS uuid) AND session = :session"
        )
        await self._run(statement, {"id": account.id, "session": account.session, "digest": digest})

    async def all(self) -> list[Account]:
        rows = await self._rows(f"SELECT {COLUMNS} FROM telegram_accounts ORDER BY created_at, id")
        return [_account(row) for row in rows]

    async def get(self, account_id: str) -> Account | None:
        statement = f"SELECT {COLUMNS} FROM telegram_accounts WHERE id = CAST(:id AS uuid)"
        row = await self._row(statement, {"id": account_id})
        return None if row is None else _account(row)

    async def remove(self, account_id: str) -> bool:
        """Forget an account with its session, and with the access hashes that only it can use."""
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
        """Write down why an account is of no use, unless a login since then has made it usable again."""
        statement = (
            "UPDATE telegram_accounts SET status = :status, last_error = :error"
            " WHERE id = CAST(:id AS uuid) AND session = :session"
        )
        error = account.last_error and account.last_error[:LONGEST_ERROR]
        values = {"id": account.id, "session": account.session, "status": account.status, "error": error}
        await self._run(statement, values)

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
        statement = (
            "UPDATE channels SET access_hash = access_hash || jsonb_build_object(CAST(:account AS text),"
            " CAST(:hash AS bigint)) WHERE id = :id"
        )
        await self._run(statement, {"id": channel_id, "account": account_id, "hash": access_hash})

    async def forget_hash(self, account_id: str, channel_id: int, access_hash: int) -> None:
        """Telegram does not take this hash any more. One that was written since then stays."""
        statement = (
            "UPDATE channels SET access_hash = access_hash - CAST(:account AS text)"
            " WHERE id = :id AND access_hash -> CAST(:account AS text) = to_jsonb(CAST(:hash AS bigint))"
        )
        await self._run(statement, {"id": channel_id, "account": account_id, "hash": access_hash})


TURN = 0x7467615F6C656173  # of the advisory lock: processes divide the accounts one after the other
PROCESS, ACCOUNT, SESSION = "process:", "account:", "session:"

# Channels that this process can read. Where only other processes know the access hash, they go first, until the channel
# has waited too long ({late}): looking a username up is what Telegram limits hardest. Every process takes a channel
# that no account can read, to say why.
_READABLE = (
    "(jsonb_exists_any({c}.access_hash, CAST(:knowing AS text[]))"
    " OR ({c}.username IS NOT NULL AND :asking AND"
    " ({late} OR NOT jsonb_exists_any({c}.access_hash, CAST(:elsewhere AS text[]))))"
    " OR NOT (jsonb_exists_any({c}.access_hash, CAST(:living AS text[]))"
    " OR ({c}.username IS NOT NULL AND cardinality(CAST(:living AS text[])) > 0)))"
)


def readable(reach: Reach | None, *, table: str = "channels", late: str = "false") -> tuple[str, dict[str, Any]]:
    """The condition and its values; without a reach every channel can be read."""
    if reach is None:
        return "true", {}
    values = {
        "knowing": list(reach.knowing),
        "asking": reach.asking,
        "elsewhere": list(reach.elsewhere),
        "living": list(reach.living),
    }
    return _READABLE.format(c=table, late=late), values


@dataclass(frozen=True, slots=True)
class Held:
    """How the accounts are shared, as this process left them."""

    mine: Mapping[str, int] = field(default_factory=dict)  # account -> fence: how often it changed hands
    others: Mapping[str, str] = field(default_factory=dict)  # account -> the process that has it
    give: tuple[str, ...] = ()  # to be closed and released: others have too few
    processes: tuple[str, ...] = ()  # that capture now, this one among them


class AccountLeases(Store):
    """The leases of one process."""

    def __init__(self, database: AsyncEngine, owner: str, *, ttl: float, is_gone: Callable[[str], bool]) -> None:
        super().__init__(database)
        self.owner = owner
        self.ttl = ttl
        self._is_gone = is_gone

    async def beat(self, *, unusable: Collection[str] = ()) -> Held:
        """Say that we are alive, keep what we have, take our share of the accounts that we can use."""
        async with self._database.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": TURN})
            await self._forget_the_gone(connection)
            await self._hold(connection, [PROCESS + self.owner])
            found = await self._living(connection)
            processes = {owner for name, owner in found.items() if name.startswith(PROCESS)}
            holders = await self._holders(connection, found)
            plan = share({name: who for name, who in holders.items() if name not in unusable}, processes, self.owner)
            wanted = [ACCOUNT + account for account in (*plan.keep, *plan.give, *plan.take)]
            fences = await self._hold(connection, wanted)
        return _held(plan, holders, processes, fences, self.owner)

    async def alone(self, name: str) -> bool:
        """Hold a lease on something that has no account yet; False while another process has it."""
        statement = (
            "INSERT INTO leases AS l (name, owner, until) VALUES (:name, :owner, clock_timestamp() + :ttl)"
            " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until"
            " WHERE l.owner = excluded.owner OR l.until < clock_timestamp() RETURNING 1"
        )
        values = {"name": name, "owner": self.owner, "ttl": timedelta(seconds=self.ttl)}
        return await self._row(statement, values) is not None

    async def release(self, names: Collection[str]) -> None:
        """Give up those that are still ours; the fence stays in the row."""
        statement = "UPDATE leases SET until = '-infinity' WHERE name = ANY(:names) AND owner = :owner"
        await self._run(statement, {"names": list(names), "owner": self.owner})

    async def leave(self) -> None:
        """We stop: everything is free at once."""
        async with self._database.begin() as connection:
            await connection.execute(text("DELETE FROM leases WHERE name = :name"), {"name": PROCESS + self.owner})
            await connection.execute(
                text("UPDATE leases SET until = '-infinity' WHERE owner = :owner"), {"owner": self.owner}
            )

    async def _forget_the_gone(self, connection: AsyncConnection) -> None:
        owners = await connection.execute(text("SELECT DISTINCT owner FROM leases WHERE until > clock_timestamp()"))
        gone = [row.owner for row in owners if row.owner != self.owner and self._is_gone(row.owner)]
        await connection.execute(text("UPDATE leases SET until = '-infinity' WHERE owner = ANY(:gone)"), {"gone": gone})
        await connection.execute(
            text("DELETE FROM leases WHERE until < clock_timestamp() AND NOT starts_with(name, :kept)"),
            {"kept": ACCOUNT},
        )

    async def _living(self, connection: AsyncConnection) -> dict[str, str]:
        rows = await connection.execute(text("SELECT name, owner FROM leases WHERE until > clock_timestamp()"))
        return {row.name: row.owner for row in rows}

    async def _holders(self, connection: AsyncConnection, found: Mapping[str, str]) -> dict[str, str | None]:
        rows = await connection.execute(
            text("SELECT CAST(id AS text) AS id FROM telegram_accounts WHERE status = 'active' ORDER BY created_at, id")
        )
        return {row.id: found.get(ACCOUNT + row.id) for row in rows}

    async def _hold(self, connection: AsyncConnection, names: Collection[str]) -> dict[str, int]:
        if not names:
            return {}
        statement = text(
            "INSERT INTO leases AS l (name, owner, until, fence)"
            " SELECT name, :owner, clock_timestamp() + :ttl, 1 FROM unnest(CAST(:names AS text[])) AS name"
            " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until,"
            " fence = l.fence + CASE WHEN l.owner = excluded.owner THEN 0 ELSE 1 END RETURNING name, fence"
        )
        values = {"owner": self.owner, "ttl": timedelta(seconds=self.ttl), "names": list(names)}
        return {row.name: row.fence for row in await connection.execute(statement, values)}


async def processes(database: AsyncEngine) -> list[str]:
    """Those that capture now."""
    statement = text("SELECT owner FROM leases WHERE starts_with(name, :kind) AND until > clock_timestamp()")
    async with database.connect() as connection:
        return [row.owner for row in await connection.execute(statement, {"kind": PROCESS})]


def _held(
    plan: Share, holders: Mapping[str, str | None], processes: Collection[str], fences: Mapping[str, int], owner: str
) -> Held:
    mine = {account: fences[ACCOUNT + account] for account in (*plan.keep, *plan.give, *plan.take)}
    others = {account: who for account, who in holders.items() if who not in {None, owner} and account not in mine}
    return Held(mine, {name: who for name, who in others.items() if who}, plan.give, tuple(sorted(processes)))
