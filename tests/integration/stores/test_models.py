"""Answers that models gave before, and what asking cost by tenant and day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.abilities import Identity
from telegram_assistant.domain.understanding import Usage
from telegram_assistant.stores.postgres.models import ModelResults, ModelUsage, Used
from telegram_assistant.stores.postgres.tables import SYSTEM_TENANT

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
    usage, took = ModelUsage(database), Usage(tokens_in=100, tokens_out=20, cost=0.5, latency_ms=10)
    moscow = timezone(timedelta(hours=3))
    await usage.add(SYSTEM, "tag", CHAT, took, now=NOON)
    await usage.add(SYSTEM, "tag", CHAT, took, now=datetime(2026, 11, 2, 2, tzinfo=moscow))  # still the 1st in UTC
    await usage.add(SYSTEM, "describe", EYES, took, now=NOON)
    await usage.add(TENANT, "tag", CHAT, took, now=NOON)
    await usage.add(SYSTEM, "tag", CHAT, took, now=NOON - timedelta(days=1))
    today = NOON.replace(hour=0)
    assert await usage.since(SYSTEM, today) == [
        Used("describe", "openai", "gpt", 1, 120, 0.5, 10.0),
        Used("tag", "gigachat", "GigaChat-2", 2, 240, 1.0, 20.0),
    ]
    assert [used.calls for used in await usage.since(SYSTEM, today - timedelta(days=1))] == [1, 3]
    assert [used.calls for used in await usage.since(TENANT, today)] == [1]
    assert await usage.since(TENANT, today + timedelta(days=1)) == []
    assert len(await rows(database)) == 4


async def rows(database: AsyncEngine) -> list[object]:
    async with database.connect() as connection:
        return list(await connection.execute(text("SELECT 1 FROM model_usage")))
