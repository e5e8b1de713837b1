"""Leases on accounts: one process at a time opens a session, because Telegram ends one that is used from two places.

All times are the database's: clocks of machines differ. Who holds a lease counts its time from before it asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.sharing import Reach, Share, share

TURN = 0x7467615F6C656173  # of the advisory lock: those who share accounts do so one after the other
PROCESS, ACCOUNT, SESSION = "process:", "account:", "session:"

# A channel that we can read. One whose hash only others know is theirs, until it has waited too long ({late}): looking
# a username up is what Telegram limits hardest. What no account at all can read is everybody's, to be said why.
_READABLE = (
    "(jsonb_exists_any({c}.access_hash, CAST(:knowing AS text[]))"
    " OR ({c}.username IS NOT NULL AND :asking AND"
    " ({late} OR NOT jsonb_exists_any({c}.access_hash, CAST(:elsewhere AS text[]))))"
    " OR NOT (jsonb_exists_any({c}.access_hash, CAST(:living AS text[]))"
    " OR ({c}.username IS NOT NULL AND cardinality(CAST(:living AS text[])) > 0)))"
)


def readable(reach: Reach | None, *, table: str = "channels", late: str = "false") -> tuple[str, dict[str, Any]]:
    """The condition and its values; None: everything is."""
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


class AccountLeases:
    """The leases of one process."""

    def __init__(self, database: AsyncEngine, owner: str, *, ttl: float, is_gone: Callable[[str], bool]) -> None:
        self._database = database
        self.owner = owner
        self.ttl = ttl
        self._is_gone = is_gone

    async def beat(self, *, unusable: Collection[str] = ()) -> Held:
        """Say that we are alive, keep what we have, take our share of the rest. Not of what we cannot use."""
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
        statement = text(
            "INSERT INTO leases AS l (name, owner, until) VALUES (:name, :owner, clock_timestamp() + :ttl)"
            " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until"
            " WHERE l.owner = excluded.owner OR l.until < clock_timestamp() RETURNING 1"
        )
        values = {"name": name, "owner": self.owner, "ttl": timedelta(seconds=self.ttl)}
        async with self._database.begin() as connection:
            return (await connection.execute(statement, values)).first() is not None

    async def release(self, names: Collection[str]) -> None:
        """Give up what is ours still; the fence stays in the row."""
        statement = text("UPDATE leases SET until = '-infinity' WHERE name = ANY(:names) AND owner = :owner")
        async with self._database.begin() as connection:
            await connection.execute(statement, {"names": list(names), "owner": self.owner})

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
