"""Answers of models that were asked before, and what asking cost, by tenant and day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.models import Identity
from telegram_assistant.domain.understanding import Usage

_USE = """
INSERT INTO model_usage AS u (tenant_id, day, ability, provider, model, calls, tokens_in, tokens_out, cost, latency_ms)
VALUES (:tenant, :day, :ability, :provider, :model, :calls, :tokens_in, :tokens_out, :cost, :latency)
ON CONFLICT (tenant_id, day, ability, provider, model) DO UPDATE SET calls = u.calls + excluded.calls,
  tokens_in = u.tokens_in + excluded.tokens_in, tokens_out = u.tokens_out + excluded.tokens_out,
  cost = u.cost + excluded.cost, latency_ms = u.latency_ms + excluded.latency_ms
"""


class ModelResults:
    """The table `model_results`: a cache that every process shares."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def get(self, key: str) -> bytes | None:
        statement = text("SELECT data FROM model_results WHERE key = :key")
        async with self._database.connect() as connection:
            found = (await connection.execute(statement, {"key": key})).scalar_one_or_none()
        return None if found is None else bytes(found)

    async def put(self, key: str, data: bytes) -> None:
        statement = text(
            "INSERT INTO model_results (key, data) VALUES (:key, :data)"
            " ON CONFLICT (key) DO UPDATE SET data = excluded.data, created_at = now()"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"key": key, "data": data})


@dataclass(frozen=True, slots=True)
class Used:
    """What a tenant used of one model."""

    ability: str
    provider: str
    model: str
    calls: int
    tokens: int
    cost: float
    latency_ms: float


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


class ModelUsage:
    """The table `model_usage`."""

    def __init__(self, database: AsyncEngine, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def add(self, tenant_id: UUID, ability: str, identity: Identity, usage: Usage, *, calls: int = 1) -> None:
        """To the row of the day. What took no tokens is no call: local models, and what was kept."""
        if not (usage.tokens_in or usage.tokens_out):
            return
        day = self._clock().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        values: dict[str, object] = {"tenant": tenant_id, "day": day, "ability": ability, "calls": calls}
        values |= {"provider": identity.provider, "model": identity.model}
        values |= {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
        values |= {"cost": usage.cost, "latency": usage.latency_ms}
        async with self._database.begin() as connection:
            await connection.execute(text(_USE), values)

    async def since(self, tenant_id: UUID, moment: datetime) -> list[Used]:
        statement = text(
            "SELECT ability, provider, model, sum(calls)::bigint, sum(tokens_in + tokens_out)::bigint, sum(cost),"
            " sum(latency_ms) FROM model_usage WHERE tenant_id = :tenant AND day >= :since"
            " GROUP BY ability, provider, model ORDER BY ability, provider, model"
        )
        async with self._database.connect() as connection:
            return [Used(*row) for row in await connection.execute(statement, {"tenant": tenant_id, "since": moment})]

    async def by_day(self, since: datetime) -> list[UsedOnDay]:
        """Of the whole installation, the newest day first."""
        statement = text(
            "SELECT day, ability, provider, model, sum(calls)::bigint, sum(tokens_in + tokens_out)::bigint, sum(cost)"
            " FROM model_usage WHERE day >= :since"
            " GROUP BY day, ability, provider, model ORDER BY day DESC, ability, provider, model"
        )
        async with self._database.connect() as connection:
            return [UsedOnDay(*row) for row in await connection.execute(statement, {"since": since})]
