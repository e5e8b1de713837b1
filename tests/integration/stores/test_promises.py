"""Channels that were not read by the time that was promised: counted for health, and told in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.imports import ImportedChannels

pytestmark = pytest.mark.integration

READ = datetime(2026, 11, 1, 12, tzinfo=UTC)


async def test_n1_one_channel_is_told_before_twice_its_promise_is_over(database: AsyncEngine) -> None:
    async with database.begin() as connection:
        await connection.execute(
            text(
                "INSERT INTO channels (id, title, status, last_success_at, promised_at)"
                " VALUES (1, 'News', 'active', :read, :promised), (2, 'Sport', 'active', :read, :later)"
            ),
            {"read": READ, "promised": READ + timedelta(minutes=8), "later": READ + timedelta(hours=1)},
        )
    channels = Channels(database)
    told = {}
    for minutes in (8, 9, 13, 15):
        outcome = await channels.outcome(READ + timedelta(minutes=minutes), shown=5)
        told[minutes] = outcome.overdue, outcome.late
    assert told == {8: (0, 0), 9: (1, 0), 13: (1, 0), 15: (1, 1)}
    assert outcome.longest[0][0] == "News"


async def test_n9_a_channel_of_an_export_alone_is_never_overdue(database: AsyncEngine) -> None:
    """It cannot be read: nothing was promised of it, and nothing is wrong."""
    tenant, user = UUID(SYSTEM_TENANT), UUID(SYSTEM_USER)
    whose: dict[str, Any] = {"tenant_id": tenant, "user_id": user, "private": False, "group": False}
    await ImportedChannels(database).watch(7, "Old news", ids=(1, 9), **whose)
    outcome = await Channels(database).outcome(datetime.now(UTC) + timedelta(days=1), shown=5)
    assert (outcome.overdue, outcome.late, outcome.longest) == (0, 0, [])
