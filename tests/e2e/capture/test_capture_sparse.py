"""Ids that are one sequence over all channels: high, and far between. The ledger gets to know every one of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_simulator.faults import Fault
from telegram_simulator.model import Ids

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("ids", [Ids.SPARSE])]

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

ALL = "UPDATE channels SET history_from = '2013-01-01Z' WHERE requested_from > 1"


async def captured_with_history(store: Store, capture: Capture, channel: Any) -> None:
    await store.watch(channel)
    await capture.start()

    async def visited() -> bool:
        row = await store.row(channel)
        return row is not None and row.last_success_at is not None

    await store.until(visited, "the first visit")
    await store.change(ALL)


async def known_to_the_last_id(store: Store, *channels: Any) -> None:
    """Nothing is unknown, nothing was not asked for, and what is empty is what the truth says."""

    async def all_known() -> bool:
        ledgers = [await store.ledger(channel) for channel in channels]
        return not any(ledger.unknown or ledger.not_requested for ledger in ledgers)

    await store.until(all_known, "every id is known", 120)
    for channel in channels:
        ledger = await store.ledger(channel)
        assert (ledger.captured, ledger.newest_id) == (len(channel.messages), channel.newest_id)
        assert ledger.empty == channel.newest_id - len(channel.messages)
        assert await store.whole(channel)


async def test_n24_a_few_messages_with_high_ids(town: Town, store: Store, capture: Capture) -> None:
    town.open("other_one", 31, over=timedelta(days=40))
    news = town.open("daily_news", 31, over=timedelta(days=20))
    assert min(news.messages) > 10_000
    await captured_with_history(store, capture, news)
    await known_to_the_last_id(store, news)


@pytest.mark.parametrize("left_out", [None, "lose_middle"])
async def test_n24_many_messages_far_apart(town: Town, store: Store, capture: Capture, left_out: str | None) -> None:
    """Between two of them lie more ids than can be asked for one by one."""
    news, other = town.open("daily_news"), town.open("other_one")
    for number in range(260):
        at = datetime.now(UTC) - timedelta(hours=(260 - number) / 3)
        town.say(news, at=at)
        for _ in range(3 if number % 50 else 400):
            town.say(other, at=at)
    town.world.delete(news, list(news.messages)[100:120])
    if left_out:
        town.sim.faults.add(Fault(left_out, "messages.getHistory", skip=2, times=3))
    await captured_with_history(store, capture, news)
    await known_to_the_last_id(store, news)
    post = town.say(news, "And it goes on")
    await store.captured_text(news, post.id, post.text)
    await known_to_the_last_id(store, news)


async def test_n24_a_wiped_beginning(town: Town, store: Store, capture: Capture) -> None:
    """The owner cleared the history: what is left begins somewhere, and nothing below it exists."""
    news = town.open("daily_news", 150, over=timedelta(days=9))
    town.open("other_one", 150)
    for _ in range(5):
        town.say(news)
    town.world.delete(news, list(news.messages)[:150])
    await captured_with_history(store, capture, news)
    await known_to_the_last_id(store, news)
