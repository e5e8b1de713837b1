"""What is not watched is not captured: a removed channel, though the account is in it; a group for comments alone."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.comments import Comments

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

HOURLY = {"parser_scheduler_interval_sec": 3600}


async def test_a_removed_channel_is_not_captured_live(town: Town, store: Store, capture: Capture) -> None:
    news, other = town.open("daily_news", 3, members={1001}), town.open("other_news", 3, members={1001})
    await store.watch(news, other)
    await capture.start(**HOURLY)
    await store.captured(news, other)
    await Channels(store.database).set_status(news.id, "removed")
    for number in range(3):
        town.say(news, f"Nobody asked for this, {number}")
        post = town.say(other, f"Somebody asked for this, {number}")
        await store.captured_text(other, post.id, post.text)
    town.world.delete(news, [1])
    post = town.say(other, "The last")
    await store.captured_text(other, post.id, post.text)
    assert len(await store.texts(news)) == 3


async def test_a_group_that_holds_comments_is_never_visited(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 3, members={1001})
    group = town.open("news_chat", 20, members={1001}, group=True)
    await store.watch(news)
    await capture.start(**HOURLY)
    await store.captured(news)
    await Comments(store.database).add_group(group.id, await store.row(news))
    town.album(group, 2)  # an open album makes a channel due

    async def heard() -> bool:
        return bool(await store.texts(group))

    await store.until(heard, "the album is heard live")
    for number in range(3):
        post = town.say(news, f"Later {number}")
        await store.captured_text(news, post.id, post.text)
    row = await store.row(group)
    assert (row.status, row.next_visit_at, row.failures) == ("linked", None, 0)
    assert not town.asked("messages.getHistory", group)
