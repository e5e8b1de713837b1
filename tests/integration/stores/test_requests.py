"""Wishes for channels: what is known of a channel is not forgotten when somebody asks for it again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.source import ChannelInfo
from telegram_assistant.stores.postgres.watched_channels import Requests

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NEWS = ChannelInfo(id=77, title="News", username="news", access_hash=1, about="All the news", subscribers=1_000)


async def test_who_asks_again_for_a_known_channel_blanks_nothing(database: AsyncEngine) -> None:
    requests, tenant = Requests(database), UUID(SYSTEM_TENANT)
    short = replace(NEWS, title="The News", about="", subscribers=None)  # as our own tables tell it
    for info in (NEWS, short):
        await requests.add(tenant, UUID(SYSTEM_USER), "@news")
        wish = await requests.get(tenant, "@news")
        assert wish is not None
        await requests.fulfil(wish, info, "account", NOW)
    async with database.connect() as connection:
        row = (await connection.execute(text("SELECT title, about, subscribers FROM channels"))).one()
    assert tuple(row) == ("The News", "All the news", 1_000)


async def test_a_long_list_of_one_tenant_keeps_no_other_waiting(database: AsyncEngine) -> None:
    requests = Requests(database)
    async with database.begin() as connection:
        made = await connection.execute(text("INSERT INTO tenants (name) VALUES ('late') RETURNING id"))
        late: UUID = made.scalar_one()
    for number in range(30):
        await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), f"@channel{number}")
    await requests.add(late, UUID(SYSTEM_USER), "@mine")
    taken = await requests.take(now=NOW, hold=timedelta(minutes=1), limit=10)
    assert [one.reference for one in taken] == [*(f"@channel{number}" for number in range(9)), "@mine"]
    assert len(await requests.take(now=NOW, hold=timedelta(minutes=1), limit=100)) == 21
