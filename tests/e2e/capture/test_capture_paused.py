"""A paused channel costs nothing and raises no alarm; resumed, it has all that happened meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.stores.postgres.channel_settings import ChannelSettings

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Machine = Any

READER = 1001


@pytest.mark.parametrize("members", [{READER}, set()], ids=["joined", "not joined"])
async def test_nothing_is_read_while_paused_and_all_of_it_afterwards(
    town: Town, store: Store, machine: Machine, members: set[int]
) -> None:
    news, other = town.open("daily_news", 30, over=timedelta(hours=20), members=members), town.open("other", 3)
    await store.watch(news, other)
    ingest = await machine.start()
    await store.captured(news, other)
    settings = ChannelSettings(store.database)
    await settings.pause(UUID(SYSTEM_TENANT), news.id)
    before = await everything(store, news)
    for number in range(3):
        town.say(news, f"While paused {number}")
    town.world.edit(news, 2, "Edited while paused")
    town.world.delete(news, [3, 30])
    await store.change("UPDATE channels SET promised_at = now() - interval '1 hour' WHERE id = :id", id=news.id)
    post = town.say(other, "Others go on")
    await store.captured_text(other, post.id, post.text)  # by now a visit that was under way is over
    asked = len(town.sim.rpc_log)
    await store.ticks(3)
    assert await everything(store, news) == before
    assert not [call for call in list(town.sim.rpc_log)[asked:] if f"peer={news.id} " in call.args]
    details = await ingest.details()
    assert (details["status"], news.username in str(details["troubles"])) == ("ok", False), details
    await settings.resume(UUID(SYSTEM_TENANT), news.id)
    await store.captured(news)
    posts = await store.rows("SELECT message_id, version FROM posts WHERE channel_id = :id", id=news.id)
    assert len(posts) == 33, "nothing is doubled"
    assert {row.message_id: row.version for row in posts if row.version > 1} == {2: 2}
    assert (await ingest.details())["status"] == "ok"


async def everything(store: Store, channel: Any) -> list[Any]:
    rows: list[Any] = await store.rows(
        "SELECT message_id, text, version, deleted_at FROM posts WHERE channel_id = :id ORDER BY message_id",
        id=channel.id,
    )
    return rows
