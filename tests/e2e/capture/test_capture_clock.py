"""A clock that was wrong for a moment costs nothing later (N2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.ingest import heartbeat
from telegram_assistant.names import SCHEDULER_LAST_TICK, SCHEDULER_LOCK
from tests.metrics import sample

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any


async def test_n2_a_clock_a_day_ahead_for_a_moment_costs_no_day(
    town: Town, store: Store, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "COMPARE_SECONDS", 0.2)
    ahead = timedelta(0)
    news = town.open("daily_news", 3)
    await store.watch(news)
    runtime = await capture.start(clock=lambda: datetime.now(UTC) + ahead)
    await store.captured(news)
    assert (await runtime.health.details())["clock"]["status"] == "ok"

    ahead = timedelta(days=1)
    tomorrow = datetime.now(UTC) + timedelta(hours=20)

    async def spoiled() -> bool:
        row = await store.row(news)
        return row.next_visit_at is not None and row.next_visit_at > tomorrow

    await store.until(spoiled, "a visit is planned for tomorrow")
    said = (await runtime.health.details())["clock"]
    assert said["status"] == "failing"
    assert "ahead of that of the database" in said["error"]

    await store.redis.set(SCHEDULER_LOCK, "another")  # no tick and no visit puts right what is to be pulled back

    async def settled() -> bool:
        ((promised, leased),) = await store.rows("SELECT promised_at, leased_until FROM channels")
        return leased is None and promised is not None and promised > tomorrow

    await store.until(settled, "the visit by the wrong clock is over")
    ahead = timedelta(0)

    async def told() -> bool:
        said = (await runtime.health.details())["clock"]
        return said["status"] == "degraded" and "a clock was wrong" in said["error"]

    await store.until(told, "it is told, although all is put right")
    await store.redis.delete(SCHEDULER_LOCK)
    town.say(news, "Today")
    await store.captured(news)

    async def ticked() -> bool:
        return datetime.fromisoformat(await store.redis.get(SCHEDULER_LAST_TICK)) < tomorrow

    await store.until(ticked, "it ticks by the right clock again")
    ((promised, leased),) = await store.rows("SELECT promised_at, leased_until FROM channels")
    assert promised < tomorrow
    assert leased is None or leased < tomorrow
    assert sample("scheduler_last_tick_ts_seconds") < tomorrow.timestamp(), "SchedulerStale can fire"


async def test_n2_a_last_tick_in_the_future_is_not_ok_and_does_not_stop_the_scheduler(
    town: Town, store: Store, capture: Capture
) -> None:
    news = town.open("daily_news", 3)
    await store.watch(news)
    later = datetime.now(UTC) + timedelta(days=1)
    await store.redis.set(SCHEDULER_LAST_TICK, later.isoformat())
    runtime = await capture.start(parser_scheduler_interval_sec=3600)

    async def ticked() -> bool:
        return datetime.fromisoformat(await store.redis.get(SCHEDULER_LAST_TICK)) < later - timedelta(hours=12)

    await store.until(ticked, "it ticks although the last tick is said to be tomorrow")
    assert (await runtime.health.details())["scheduler"]["status"] == "ok"
