"""Away for a week, then back, in a world of 60 channels: every edit and deletion is found at the usual budget."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from telegram_assistant.domain.accounts import Pace

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

CHANNELS = 60
HOUR = 3600.0
HOURLY = {"parser_scheduler_interval_sec": 3600}
MONTHS = timedelta(days=60)


def seconds_at_pace(requests: dict[str, int]) -> float:
    """How long one account needs for so many requests of each method, one method after the other."""
    total = 0.0
    for method, count in requests.items():
        pace, now = Pace.for_method(method), 0.0
        for _ in range(count):
            now = pace.next_allowed(now)
            pace = pace.asked(now)
        total += now
    return total


def live_on(town: Town, channels: list[Any], rng: Random) -> None:
    """A week without us: in every channel some posts of any age are edited or deleted, in some very many."""
    for number, channel in enumerate(channels):
        ids = list(channel.messages)
        many = number % 6 == 0
        for message_id in rng.sample(ids, min(len(ids), 120) if many else 4):
            town.world.edit(channel, message_id, f"Edited while away: {message_id}")
        town.world.delete(channel, rng.sample(ids, 5))
        town.say(channel, "New while away")


async def test_n25_after_a_week_away_every_edit_and_deletion_is_found_within_an_hour_at_the_usual_budget(
    town: Town, store: Store, capture: Capture
) -> None:
    rng = Random(7)
    channels = [
        town.open(f"channel_{number:02}", 150 if number % 6 == 0 else rng.randint(15, 60), over=MONTHS)
        for number in range(CHANNELS)
    ]
    await store.watch(*channels)
    await capture.start()

    async def begun() -> bool:
        rows = await store.rows("SELECT 1 FROM channels WHERE last_success_at IS NOT NULL")
        return len(rows) == CHANNELS

    await store.until(begun, "all are visited", 300)
    await store.change("UPDATE channels SET history_from = '2013-01-01'")
    await store.captured(*channels)
    await capture.stop()

    live_on(town, channels, rng)
    week_ago = (datetime.now(UTC) - timedelta(days=7)).isoformat()
    await store.change(
        "UPDATE channels SET last_success_at = now() - interval '7 days',"
        " refreshed = jsonb_build_object('changes', CAST(:ago AS text), 'changes_told', CAST(:ago AS text))",
        ago=week_ago,
    )
    town.sim.rpc_log.clear()
    runtime = await capture.start(**HOURLY)
    shown = []

    async def audited() -> bool:
        shown.append((await runtime.health.sections["audit"]())["posts_waiting"])
        rows = await store.rows("SELECT 1 FROM channel_audits WHERE audited_at IS NOT NULL AND wanted_at IS NULL")
        return len(rows) == CHANNELS

    await store.until(audited, "every channel is audited", 300)
    await store.captured(*channels)
    assert max(shown) > 0, "progress is shown"
    assert (await runtime.health.sections["audit"]())["posts_waiting"] == 0
    requests = Counter(call.method for call in town.sim.rpc_log if call.method.partition(".")[0] != "users")
    assert requests["updates.getChannelDifference"] >= CHANNELS
    assert seconds_at_pace(requests) < HOUR
    reasons = {row.reason for row in await store.rows("SELECT reason FROM channel_audits")}
    assert reasons == {"away", "too_long"}
