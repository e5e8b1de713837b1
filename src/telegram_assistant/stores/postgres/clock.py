"""The database's clock, and stored times that no right clock can have written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine


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


class StoredTimes:
    """Of all channels."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def now(self) -> datetime:
        async with self._database.connect() as connection:
            found: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
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
