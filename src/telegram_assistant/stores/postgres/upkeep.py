"""Work that processes take turns at, how far each got, and stored times that a wrong clock wrote.

A turn is a transaction that holds its row in `upkeep`: one process at a time has it, a second one goes on with
something else, and the work of a killed process is rolled back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import msgspec
from sqlalchemy import text

from telegram_assistant.stores.postgres.database import Store, raw_transaction
from telegram_assistant.stores.postgres.posts import Connection

S = TypeVar("S", bound=msgspec.Struct)

_NEW = "INSERT INTO upkeep (name, state, at) VALUES ($1, '{}', to_timestamp(0)) ON CONFLICT DO NOTHING"
_TAKE = (
    "SELECT state::text AS state, now() AS now FROM upkeep WHERE name = $1 AND at <= now() - $2::interval"
    " FOR UPDATE SKIP LOCKED"
)
_KEEP = "UPDATE upkeep SET state = $2::jsonb, at = now() WHERE name = $1"


@dataclass
class Turn(Generic[S]):
    """Ours until the transaction ends; `state` is kept then."""

    connection: Connection
    now: datetime  # by the clock of the database, as all times in the tables
    state: S


class Upkeep(Store):
    """One row for each thing that is looked after."""

    @asynccontextmanager
    async def turn(self, name: str, kind: type[S], *, every: timedelta) -> AsyncIterator[Turn[S] | None]:
        """None: another process has it at this moment, or had it less than `every` ago."""
        async with raw_transaction(self._database) as connection:
            row = await connection.fetchrow(_TAKE, name, every)
            if row is None and not await connection.fetchval("SELECT true FROM upkeep WHERE name = $1", name):
                await connection.execute(_NEW, name)
                row = await connection.fetchrow(_TAKE, name, every)
            if row is None:
                yield None
                return
            turn = Turn(connection, row["now"], msgspec.json.decode(row["state"], type=kind))
            yield turn
            await connection.execute(_KEEP, name, msgspec.json.encode(turn.state).decode())

    async def state(self, name: str, kind: type[S]) -> S:
        found = await self._value("SELECT state::text FROM upkeep WHERE name = :name", {"name": name})
        return msgspec.json.decode(found or "{}", type=kind)

    async def sign(self, roles: Collection[str]) -> None:
        """These roles run in this process, now."""
        statement = (
            "INSERT INTO upkeep (name, state, at) SELECT 'role:' || role, '{}', now() FROM"
            " unnest(CAST(:roles AS text[])) AS role ON CONFLICT (name) DO UPDATE SET at = now()"
        )
        await self._run(statement, {"roles": sorted(roles)})

    async def signs(self) -> dict[str, timedelta]:
        """How long ago some process gave a sign for each role."""
        statement = "SELECT substr(name, 6), now() - at FROM upkeep WHERE name LIKE 'role:%' ORDER BY name"
        return {row[0]: row[1] for row in await self._rows(statement)}

    async def posts(self) -> int:
        """About how many there are, as the planner knows it: counting them would take long."""
        statement = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'posts'::regclass"
        return int(await self._value(statement) or 0)


async def begin_anew(connection: Connection, name: str, state: msgspec.Struct) -> None:
    """Forget how far it got: begin with this state, at once."""
    await connection.execute(_NEW, name)
    statement = "UPDATE upkeep SET state = $2::jsonb, at = to_timestamp(0) WHERE name = $1"
    await connection.execute(statement, name, msgspec.json.encode(state).decode())


async def read_state(connection: Connection, name: str, kind: type[S]) -> S:
    found = await connection.fetchval("SELECT state::text FROM upkeep WHERE name = $1", name)
    return msgspec.json.decode(found or "{}", type=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How far ahead times may lie that were stored on purpose."""

    visit: timedelta  # of an active channel
    dead: timedelta  # of one that was given up
    promise: timedelta
    lease: timedelta


@dataclass(frozen=True, slots=True)
class Spoiled:
    """What lay further ahead."""

    channels: int
    latest: datetime | None


class StoredTimes(Store):
    """Of all channels."""

    async def now(self) -> datetime:
        found: datetime = await self._value("SELECT clock_timestamp()")
        return found

    async def pull_back(self, now: datetime, horizon: Horizon, promised: datetime) -> Spoiled:
        """What lies too far ahead is visited now, promised for `promised`, and leased for no longer than usual."""
        visits = text(
            "WITH before AS (SELECT id, next_visit_at AS was FROM channels WHERE next_visit_at > :visit AND"
            " (status = 'active' OR (status = 'dead' AND next_visit_at > :dead)))"
            " UPDATE channels SET next_visit_at = :now, planned_at = NULL FROM before WHERE channels.id = before.id"
            " RETURNING before.id, before.was"
        )
        promises = text(
            "WITH before AS (SELECT id, promised_at AS was FROM channels"
            " WHERE status = 'active' AND promised_at > :promise)"
            " UPDATE channels SET promised_at = :promised FROM before WHERE channels.id = before.id"
            " RETURNING before.id, before.was"
        )
        leases = text("UPDATE channels SET leased_until = :lease WHERE leased_until > :lease")
        async with self._database.begin() as connection:
            values = {"now": now, "visit": now + horizon.visit, "dead": now + horizon.dead}
            found = list(await connection.execute(visits, values))
            found += await connection.execute(promises, {"promised": promised, "promise": now + horizon.promise})
            await connection.execute(leases, {"lease": now + horizon.lease})
        return Spoiled(len({row.id for row in found}), max((row.was for row in found), default=None))
