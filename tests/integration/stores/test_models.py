"""Answers that models gave before, and what asking cost by tenant and day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.models import Identity, Usage
from telegram_assistant.stores.postgres.budgets import ModelResults, ModelUsage, UsedOnDay
from tests.pipeline_state import used_since

pytestmark = pytest.mark.integration

SYSTEM, TENANT = UUID(SYSTEM_TENANT), UUID(int=7)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
CHAT, EYES = Identity("gigachat", "GigaChat-2", "p1"), Identity("openai", "gpt", "p1")


async def test_an_answer_is_kept_byte_by_byte(database: AsyncEngine) -> None:
    results = ModelResults(database)
    assert await results.get("tag:1") is None
    await results.put("tag:1", b"\x00\xff{}")
    await results.put("tag:2", b"")
    assert (await results.get("tag:1"), await results.get("tag:2")) == (b"\x00\xff{}", b"")
    await results.put("tag:1", b"newer")
    assert await results.get("tag:1") == b"newer"


async def test_usage_adds_up_by_tenant_day_ability_and_model(database: AsyncEngine) -> None:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, 'seven')"), {"id": TENANT})
    usage, took = ModelUsage(database, lambda: NOON), Usage(tokens_in=100, tokens_out=20, cost=0.5, latency_ms=10)
    moscow = datetime(2026, 11, 2, 2, tzinfo=timezone(timedelta(hours=3)))  # still the 1st in UTC
    await usage.add(SYSTEM, "tag", CHAT, took)
    await ModelUsage(database, lambda: moscow).add(SYSTEM, "tag", CHAT, took)
    await usage.add(SYSTEM, "describe", EYES, took)
    await usage.add(TENANT, "tag", CHAT, took)
    await ModelUsage(database, lambda: NOON - timedelta(days=1)).add(SYSTEM, "tag", CHAT, took, calls=3)
    await usage.add(SYSTEM, "answer", CHAT, Usage(latency_ms=10))  # took nothing: no row
    today = NOON.replace(hour=0)
    assert await used_since(database, SYSTEM, today) == [
        ("describe", "openai", "gpt", 1, 120, 0.5, 10.0),
        ("tag", "gigachat", "GigaChat-2", 2, 240, 1.0, 20.0),
    ]
    assert [used.calls for used in await used_since(database, SYSTEM, today - timedelta(days=1))] == [1, 5]
    assert [used.calls for used in await used_since(database, TENANT, today)] == [1]
    assert await used_since(database, TENANT, today + timedelta(days=1)) == []
    assert len(await rows(database)) == 4
    assert await usage.by_day(today - timedelta(days=1)) == [
        UsedOnDay(today, "describe", "openai", "gpt", 1, 120, 0.5),
        UsedOnDay(today, "tag", "gigachat", "GigaChat-2", 3, 360, 1.5),
        UsedOnDay(today - timedelta(days=1), "tag", "gigachat", "GigaChat-2", 3, 120, 0.5),
    ]


async def rows(database: AsyncEngine) -> list[object]:
    async with database.connect() as connection:
        return list(await connection.execute(text("SELECT 1 FROM model_usage")))
