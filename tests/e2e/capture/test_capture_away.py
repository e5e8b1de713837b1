"""What happened to old posts while the assistant was away is told by Telegram's difference, or found by an audit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from telegram_simulator.faults import Fault

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

DIFFERENCE = "updates.getChannelDifference"
MONTH = timedelta(days=30)


async def archive(town: Town, store: Store, capture: Capture, posts: int = 60, **fields: Any) -> Any:
    """A channel whose history of a month is captured; then the assistant stops."""
    news = town.open("daily_news", posts, over=MONTH, **fields)
    await store.watch(news)
    await capture.start()
    await store.until(lambda: begun(store, news), "its first visit")
    await store.change("UPDATE channels SET history_from = '2013-01-01'")
    await store.captured(news)
    await capture.stop()
    return news


async def begun(store: Store, channel: Any) -> bool:
    row = await store.row(channel)
    return row is not None and row.last_success_at is not None


async def audited(store: Store) -> Any:
    """Wait until a full audit is over."""
    rows: list[Any] = await store.until(
        lambda: store.rows("SELECT * FROM channel_audits WHERE audited_at IS NOT NULL"), "a full audit", 120
    )
    return rows[0]


@pytest.mark.parametrize("members", [{1001}, set()], ids=["joined", "not joined"])
async def test_n25_edits_and_deletions_of_old_posts_while_away_are_found(
    town: Town, store: Store, capture: Capture, members: set[int]
) -> None:
    news = await archive(town, store, capture, members=members)
    for number in (2, 9, 30):
        town.world.edit(news, number, f"Edited while away: {number}")
    town.world.delete(news, [3, 4, 31])
    town.say(news, "New while away")
    town.world.edit(news, 9, "Edited twice")
    await capture.start()
    await store.captured(news)
    assert town.asked(DIFFERENCE, news)
    (row,) = await store.rows("SELECT pts, wanted_at, reason FROM channel_audits")
    assert (row.pts, row.wanted_at, row.reason) == (news.pts, None, None)


async def test_n25_after_more_than_a_day_every_stored_post_is_looked_at_too(
    town: Town, store: Store, capture: Capture
) -> None:
    await archive(town, store, capture)
    await store.change(
        """UPDATE channels SET refreshed = refreshed || '{"changes_told": "2024-05-01T00:00:00+00:00"}'"""
    )
    await capture.start()
    assert (await audited(store)).reason == "away"


async def test_n25_a_difference_that_is_too_long_asks_for_a_full_audit(
    town: Town, store: Store, capture: Capture
) -> None:
    news = await archive(town, store, capture, 250)
    for number in range(1, 120):
        town.world.edit(news, number, f"Edited while away: {number}")
    town.world.delete(news, range(120, 140))
    await capture.start()
    await store.captured(news)
    row = await audited(store)
    assert (row.pts, row.reason, row.wanted_at) == (news.pts, "too_long", None)
    assert (row.done, row.total) == (250, 250)


async def test_n25_without_a_difference_audits_find_what_changed(town: Town, store: Store, capture: Capture) -> None:
    news = await archive(town, store, capture)
    town.sim.faults.add(Fault("error", DIFFERENCE, code=400, message="CHANNEL_INVALID"))
    town.world.edit(news, 2, "Edited while away")
    town.world.delete(news, [3])
    await capture.start()
    await store.captured(news)
    (row,) = await store.rows("SELECT reason FROM channel_audits")
    assert row.reason == "refused"
    assert (await store.row(news)).failures == 0


async def test_n25_a_flood_on_the_difference_stops_no_reading(town: Town, store: Store, capture: Capture) -> None:
    news = await archive(town, store, capture)
    town.sim.faults.add(Fault("flood", DIFFERENCE, seconds=3600))
    post = town.say(news, "New while away")
    await capture.start()
    await store.captured_text(news, post.id, "New while away")
