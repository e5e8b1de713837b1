"""A flood of the second look keeps nothing from being captured: only what it would have told has to wait."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_simulator.faults import Fault

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any


async def test_new_posts_are_captured_while_messages_cannot_be_asked_for_by_id(
    town: Town, store: Store, capture: Capture
) -> None:
    news = town.open("daily_news", 30)
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    post = town.say(news, "Is deleted soon")
    await store.captured_text(news, post.id, post.text)
    flood = Fault("flood", "channels.getMessages", seconds=600)
    town.sim.faults.add(flood)
    town.world.delete(news, [post.id])
    await store.until(lambda: town.sim.faults.count(flood), "somebody looks again")
    for number in range(2):
        later = town.say(news, f"Captured in spite of it, {number}")
        await store.captured_text(news, later.id, later.text)
    row = await store.row(news)
    assert (row.failures, row.last_error) == (0, None)
