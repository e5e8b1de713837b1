"""A past of a few days: what rises is found, and days of which nothing is known are not shown as quiet ones."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.jobs.trends import find_trends
from telegram_assistant.stores.postgres.trends import Trends
from tests.integration.trends.rising import NOW, Past

pytestmark = pytest.mark.integration

DAYS = 4
NEW = tuple(range(5001, 5009))


async def test_only_days_that_are_known_are_shown(database: AsyncEngine, past: Past) -> None:
    tenant = await past.archive.tenant("newcomer")
    for number in NEW:
        await past.archive.channel(number, f"new_{number}", tenant)
        for day in range(DAYS):
            for hour in range(1, 24, 5):
                past.post(number, NOW - timedelta(days=day, hours=hour), tags=[f"tag {number}"])
    await past.rise("Комета", NEW)
    assert len((await find_trends(database, tenant, NOW)).new) == 1
    [trend] = await Trends(database).page(tenant, since=NOW - timedelta(days=2), before=NOW, limit=5)
    assert trend.counts == (0,) * (DAYS - 1) + (len(NEW),)
    assert trend.baseline_days == DAYS - 1
