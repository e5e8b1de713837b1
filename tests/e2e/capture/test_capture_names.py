"""A channel is known by its id: what it is called may change, and its old name may become another's."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any


async def test_a_new_name_is_noticed_and_the_old_one_is_free_again(
    town: Town, store: Store, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telegram_assistant.ingest.requests.FOUND_SECONDS", 0.1)  # names do not move within minutes
    news = town.open("daily_news", 3)
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    news.title = "Weekly News"
    town.world.rename(news, "weekly_news")

    async def noticed() -> bool:
        row = await store.row(news)
        return (row.title, row.username) == ("Weekly News", "weekly_news")

    await store.until(noticed, "the next visit sees what it is called now")
    successor = town.open("daily_news", 4)
    await store.watch(successor)
    await store.captured(successor)
    assert (await store.row(news)).username == "weekly_news"
