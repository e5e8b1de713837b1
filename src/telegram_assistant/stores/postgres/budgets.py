"""What models and crawling may spend, what they spent, and answers that are kept (decision 0017).

A claim locks its rows, so two workers cannot both take the last of a budget. What a call reserves and never settles,
because its process died, counts as spent when its time is over: the model may have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.budgets import Claim, Short, Standing, payers_in_turn, shortage
from telegram_assistant.domain.models import Identity, Usage
from telegram_assistant.stores.postgres.database import Store

KEPT = timedelta(days=3)
LEASE = timedelta(minutes=5)  # longer than any call with its repetitions
MOST_TRIED = 5  # payers, while others of their calls are under way

_LOCK = text(
    "INSERT INTO budget_spending AS b (period, owner, kind, spent) VALUES (:period, :owner, :kind, 0)"
    " ON CONFLICT (period, owner, kind) DO UPDATE SET spent = b.spent RETURNING spent, xmax = 0 AS fresh"
)
_ADD = text(
    "UPDATE budget_spending SET spent = greatest(0, spent + :amount)"
    " WHERE period = :period AND owner = :owner AND kind = :kind RETURNING spent"
)
_ABANDONED = text(
    "WITH gone AS (DELETE FROM budget_calls WHERE owner = :owner AND kind = :kind AND ends_at <= :now"
    " RETURNING amount) SELECT coalesce(sum(amount), 0)::bigint FROM gone"
)
_RUNNING = text(
    "SELECT count(*), coalesce(sum(amount), 0)::bigint FROM budget_calls"
    " WHERE owner = :owner AND kind = :kind AND ends_at > :now"
)
_HOLD = text("INSERT INTO budget_calls (id, owner, kind, amount, ends_at) VALUES (:id, :owner, :kind, :amount, :ends)")
# Another process that cleans at the same moment takes other rows: waiting could end in a deadlock.
_FORGET = text(
    "DELETE FROM budget_spending WHERE (period, owner, kind) IN (SELECT period, owner, kind FROM budget_spending"
    " WHERE period < :old ORDER BY period LIMIT 1000 FOR UPDATE SKIP LOCKED)"
)
_LET_GO = text("DELETE FROM budget_calls WHERE id = :id AND owner = :owner AND kind = :kind")
# A private channel is paid for by its tenant; a discussion group by those who watch the channel that it belongs to.
_WATCHERS = text(
    "SELECT DISTINCT w.channel, coalesce(c.tenant_id, s.tenant_id) AS tenant"
    " FROM unnest(CAST(:channels AS bigint[])) AS w (channel)"
    " JOIN channels c ON c.id = w.channel OR c.linked_id = w.channel"
    " LEFT JOIN subscriptions s ON s.channel_id = c.id WHERE coalesce(c.tenant_id, s.tenant_id) IS NOT NULL"
)
_SYSTEM_ALONE = frozenset({UUID(SYSTEM_TENANT)})


@dataclass(frozen=True, slots=True)
class Held:
    """A call that was let through; it is settled when it has ended."""

    id: UUID
    claims: tuple[Claim, ...]
    amount: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A claim that cannot be met now."""

    claim: Claim
    short: Short
    standing: Standing


class Budgets(Store):
    """The tables `budget_spending` and `budget_calls`, and who watches what."""

    async def watchers(self, channels: Collection[int]) -> dict[int, frozenset[UUID]]:
        """The tenants that pay for each channel; the system's own where no tenant watches it."""
        found: dict[int, set[UUID]] = {}
        for channel, tenant in await self._rows(_WATCHERS, {"channels": list(channels)}):
            found.setdefault(channel, set()).add(tenant)
        return {channel: frozenset(found.get(channel, _SYSTEM_ALONE)) for channel in channels}

    async def tenants(self) -> int:
        """How many tenants watch a channel."""
        return int(await self._value("SELECT count(DISTINCT tenant_id) FROM subscriptions"))

    async def in_turn(self, payers: Collection[UUID], kind: str, period: datetime) -> list[UUID]:
        """Tenants that may be charged, the one with the most left first."""
        spent = {}
        if len(payers) > 1:
            spent = await self.spent(kind, period, owners=[str(payer) for payer in payers])
        return payers_in_turn(payers, spent)[:MOST_TRIED]

    async def spent(self, kind: str, period: datetime, *, owners: Collection[str] | None = None) -> dict[str, int]:
        statement = (
            "SELECT owner, spent FROM budget_spending WHERE period = :period AND kind = :kind"
            " AND (CAST(:owners AS text[]) IS NULL OR owner = ANY(:owners))"
        )
        values = {"period": period, "kind": kind, "owners": None if owners is None else list(owners)}
        return {row.owner: row.spent for row in await self._rows(statement, values)}

    async def by_tenant(self, day: datetime) -> dict[str, dict[str, int]]:
        """What each tenant has spent, by its name and by kind."""
        statement = (
            "SELECT t.name, b.kind, b.spent FROM budget_spending b JOIN tenants t ON CAST(t.id AS text) = b.owner"
            " WHERE b.period = :day ORDER BY t.name, b.kind"
        )
        found: dict[str, dict[str, int]] = {}
        for name, kind, spent in await self._rows(statement, {"day": day}):
            found.setdefault(name, {})[kind] = spent
        return found

    async def standing(self, claim: Claim, now: datetime) -> Standing:
        async with self._database.begin() as connection:
            return await _standing(connection, claim, now)

    async def claim(
        self, claims: Sequence[Claim], now: datetime, *, reserve: int | None = None, lease: timedelta = LEASE
    ) -> Held | Refused:
        """All of the claims or none. `reserve`: held until the call is settled; without it, spent for good."""
        held = Held(uuid4(), tuple(sorted(claims, key=attrgetter("owner", "kind"))), reserve or 0)
        async with self._database.connect() as connection, connection.begin() as transaction:
            for claim in held.claims:
                standing = await _standing(connection, claim, now)
                if (short := shortage(claim, standing)) is not None:
                    await transaction.rollback()
                    return Refused(claim, short, standing)
                if reserve is None:
                    await connection.execute(_ADD, {**_key(claim), "amount": claim.needs})
                elif claim.limit is not None or claim.at_once is not None:
                    values = {"id": held.id, "owner": claim.owner, "kind": claim.kind, "amount": reserve}
                    await connection.execute(_HOLD, {**values, "ends": now + lease})
        return held

    async def settle(self, held: Held, took: int) -> dict[tuple[str, str], int]:
        """Charge what a call really took; what its budgets have spent now."""
        spent = {}
        async with self._database.begin() as connection:
            for claim in held.claims:
                await connection.execute(_LOCK, _key(claim))
                whose = {"id": held.id, "owner": claim.owner, "kind": claim.kind}
                there = (await connection.execute(_LET_GO, whose)).rowcount
                counted = claim.limit is not None or claim.at_once is not None
                amount = took if there or not counted else took - held.amount  # it was charged when its time was over
                found = await connection.execute(_ADD, {**_key(claim), "amount": amount})
                spent[claim.owner, claim.kind] = int(found.scalar_one())
        return spent


async def _standing(connection: AsyncConnection, claim: Claim, now: datetime) -> Standing:
    """Locks the row. Calls whose time is over are charged to this period."""
    key = _key(claim)
    spent, fresh = (await connection.execute(_LOCK, key)).one()
    if fresh:
        await connection.execute(_FORGET, {"old": now - KEPT})
    whose = {"owner": claim.owner, "kind": claim.kind, "now": now}
    abandoned = (await connection.execute(_ABANDONED, whose)).scalar_one()
    if abandoned:
        spent = (await connection.execute(_ADD, {**key, "amount": abandoned})).scalar_one()
    running, reserved = (await connection.execute(_RUNNING, whose)).one()
    return Standing(int(spent), int(reserved), int(running))


def _key(claim: Claim) -> dict[str, Any]:
    return {"period": claim.period, "owner": claim.owner, "kind": claim.kind}


_USE = """
INSERT INTO model_usage AS u (tenant_id, day, ability, provider, model, calls, tokens_in, tokens_out, cost, latency_ms)
VALUES (:tenant, :day, :ability, :provider, :model, :calls, :tokens_in, :tokens_out, :cost, :latency)
ON CONFLICT (tenant_id, day, ability, provider, model) DO UPDATE SET calls = u.calls + excluded.calls,
  tokens_in = u.tokens_in + excluded.tokens_in, tokens_out = u.tokens_out + excluded.tokens_out,
  cost = u.cost + excluded.cost, latency_ms = u.latency_ms + excluded.latency_ms
"""


class ModelResults(Store):
    """The table `model_results`: a cache that every process shares."""

    async def get(self, key: str) -> bytes | None:
        statement = "SELECT data FROM model_results WHERE key = :key"
        found = await self._value(statement, {"key": key})
        return None if found is None else bytes(found)

    async def put(self, key: str, data: bytes) -> None:
        statement = (
            "INSERT INTO model_results (key, data) VALUES (:key, :data)"
            " ON CONFLICT (key) DO UPDATE SET data = excluded.data, created_at = now()"
        )
        await self._run(statement, {"key": key, "data": data})


@dataclass(frozen=True, slots=True)
class UsedOnDay:
    """What all tenants used of one model on a day."""

    day: datetime  # its beginning
    ability: str
    provider: str
    model: str
    calls: int
    tokens: int
    cost: float


class ModelUsage(Store):
    """The table `model_usage`."""

    def __init__(self, database: AsyncEngine, clock: Callable[[], datetime]) -> None:
        super().__init__(database)
        self._clock = clock

    async def add(self, tenant_id: UUID, ability: str, identity: Identity, usage: Usage, *, calls: int = 1) -> None:
        """Add to the row of the day. Without tokens it is no call: local models and kept answers."""
        if not (usage.tokens_in or usage.tokens_out):
            return
        day = self._clock().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        values: dict[str, object] = {"tenant": tenant_id, "day": day, "ability": ability, "calls": calls}
        values |= {"provider": identity.provider, "model": identity.model}
        values |= {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
        values |= {"cost": usage.cost, "latency": usage.latency_ms}
        await self._run(_USE, values)

    async def by_day(self, since: datetime) -> list[UsedOnDay]:
        """Of the whole installation, the newest day first."""
        statement = (
            "SELECT day, ability, provider, model, sum(calls)::bigint, sum(tokens_in + tokens_out)::bigint, sum(cost)"
            " FROM model_usage WHERE day >= :since"
            " GROUP BY day, ability, provider, model ORDER BY day DESC, ability, provider, model"
        )
        return [UsedOnDay(*row) for row in await self._rows(statement, {"since": since})]
