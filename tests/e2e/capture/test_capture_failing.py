"""What fails is visible, is tried again, and hurts nobody else (G4, SPEC 1.7, 7.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from telegram_simulator.faults import Fault
from tests.metrics import sample

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any
Machine = Any


async def test_spec_7_3_ticking_but_nothing_parsed_is_red_and_says_why(
    town: Town, store: Store, machine: Machine
) -> None:
    news, sport = town.open("daily_news", 5), town.open("sport_today", 5)
    town.sim.faults.add(Fault("error", "messages.getHistory", code=500, message="HISTORY_GET_FAILED"))
    await store.watch(news, sport)
    program = await machine.start(parser_retry_max=0)

    async def failing() -> bool:
        parser = (await program.details())["parser"]
        return parser["status"] == "failing" and len(parser["failing"]) == 2

    await store.until(failing, "the parser is failing")  # before the first visits the page is red for another reason
    assert (await program.get("/health")).status_code == 503
    details = await program.details()
    assert details["scheduler"]["status"] == "ok", "it ticks, and still"
    assert {row["channel"] for row in details["parser"]["failing"]} == {"@daily_news", "@sport_today"}
    assert all("HISTORY_GET_FAILED" in row["error"] for row in details["parser"]["failing"])
    assert any("HISTORY_GET_FAILED" in trouble for trouble in details["troubles"])

    town.sim.faults.clear()
    await store.captured(news, sport)

    async def green() -> bool:
        return bool((await program.get("/health")).status_code == 200)

    await store.until(green, "and green again")


async def test_spec_1_7_one_channel_that_fails_disturbs_no_other(town: Town, store: Store, capture: Capture) -> None:
    bad, good = town.open("bad_channel", 5), [town.open(f"good_{number}", 120) for number in range(3)]
    town.sim.faults.add(Fault("error", "messages.getHistory", channel="bad_channel", code=500, message="INTERNAL"))
    await store.watch(bad, *good)
    runtime = await capture.start(parser_max_concurrency=2)
    await store.captured(*good)
    for channel in good:
        town.say(channel, "More")
    await store.captured(*good)

    async def failed() -> bool:
        row = await store.row(bad)
        return row is not None and row.failures >= 1 and "INTERNAL" in (row.last_error or "")

    await store.until(failed, "its failure is stored")
    details = await runtime.health.details()
    assert details["parser"]["status"] == "ok"
    assert [row["channel"] for row in details["parser"]["failing"]] == ["@bad_channel"]


async def test_a_channel_that_keeps_failing_is_dead_and_can_be_revived(
    town: Town, store: Store, machine: Machine
) -> None:
    lost, good = town.open("lost_channel", 5), town.open("good_channel", 5)
    town.sim.faults.add(
        Fault("error", "messages.getHistory", channel="lost_channel", code=400, message="CHANNEL_PRIVATE")
    )
    await store.watch(lost, good)
    await machine.start()

    async def dead() -> bool:
        row = await store.row(lost)
        return row is not None and row.status == "dead"

    await store.until(dead, "it is given up")
    listed = {row["username"]: row for row in (await machine.json("channels", "list"))["channels"]}
    assert listed["lost_channel"]["status"] == "dead"
    assert "CHANNEL_PRIVATE" in listed["lost_channel"]["error"]
    assert listed["good_channel"]["status"] == "active"
    assert listed["good_channel"]["error"] is None
    row = await store.row(lost)
    assert row.next_visit_at - datetime.now(UTC) > timedelta(hours=5), "it is tried rarely"
    assert "CHANNEL_PRIVATE" in await machine.tga("parse", "@lost_channel", code=1), "but whenever somebody asks"

    town.sim.faults.clear()
    assert "visited again" in await machine.tga("channels", "revive", "@lost_channel")
    await store.captured(lost)
    assert (await store.row(lost)).status == "active"


async def test_an_outage_of_telegram_kills_no_channel(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 5)
    await store.watch(news)
    await capture.start(parser_retry_max=0, parser_scheduler_interval_sec=0.1)
    await store.captured(news)
    down = Fault("error", "messages.getHistory", code=500, message="INTERNAL")
    town.sim.faults.add(down)

    async def many() -> bool:
        return bool((await store.row(news)).failures > 8)

    await store.until(many, "more failures than a channel may have of its own")
    assert (await store.row(news)).status == "active"
    town.say(news, "During the outage")
    town.sim.faults.clear()
    await store.captured(news)


async def test_what_is_removed_during_a_visit_stays_removed(town: Town, store: Store, machine: Machine) -> None:
    long = town.open("long_channel", 500)
    town.sim.faults.add(Fault("slow", "messages.getHistory", seconds=0.3))
    await store.watch(long)
    await machine.start(hostname="one")

    async def visited() -> bool:
        return bool(await store.rows("SELECT 1 FROM channels WHERE leased_by = 'one'"))

    await store.until(visited, "a visit is under way")
    assert "not watched any more" in await machine.tga("channels", "remove", "@long_channel")

    async def over() -> bool:
        return not await visited()

    await store.until(over, "the visit is over")
    assert (await store.row(long)).status == "removed"
    assert (await machine.json("channels", "list"))["channels"] == []
    await store.watch(long)

    async def active() -> bool:
        return bool((await store.row(long)).status == "active")

    await store.until(active, "who asks again gets it again")
    await store.captured(long)


async def test_a_flood_is_waited_for_and_is_no_failure(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 250)
    flood = Fault("flood", "messages.getHistory", seconds=2, skip=2, times=1)
    town.sim.faults.add(flood)
    waited = sample("parser_floodwait_seconds_total")
    retries = sample("parser_retries_total", reason="flood")
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    assert town.sim.faults.count(flood) == 1
    assert sample("parser_floodwait_seconds_total") - waited == 2
    assert sample("parser_retries_total", reason="flood") - retries == 1
    assert (await store.row(news)).failures == 0


async def test_spec_7_3_visits_that_hang_are_no_progress(town: Town, store: Store, capture: Capture) -> None:
    """Every place is taken by a visit that waits for ever: the task is alive, and yet it will count as stuck."""
    news = town.open("daily_news", 5)
    await store.watch(news)
    runtime = await capture.start(parser_max_concurrency=1)
    await store.captured(news)
    town.say(news, "Nobody can save this")
    async with store.database.begin() as connection:
        await connection.execute(text("LOCK TABLE posts IN ACCESS EXCLUSIVE MODE"))

        async def hangs() -> bool:
            waiting = await store.rows("SELECT 1 FROM pg_locks WHERE NOT granted")
            return bool(waiting) and bool(await store.rows("SELECT 1 FROM channels WHERE leased_by IS NOT NULL"))

        await store.until(hangs, "a visit waits for the lock")
        await store.ticks(1)
        before = runtime.supervisor.tasks["visits"].last_progress
        await store.ticks(2)
        assert runtime.supervisor.tasks["visits"].last_progress == before
    await store.captured(news)
    assert runtime.supervisor.tasks["visits"].last_progress > before


async def test_n28_an_expected_state_is_logged_without_a_traceback(town: Town, store: Store, capture: Capture) -> None:
    news = town.open("daily_news", 5)
    await store.watch(news)
    await capture.start()
    await store.captured(news)
    town.sim.faults.add(Fault("error", "messages.getHistory", code=400, message="CHANNEL_PRIVATE"))
    with capture_logs() as lines:

        async def failed() -> bool:
            return bool((await store.row(news)).failures)

        await store.until(failed, "a visit that fails", 120)
    (said, *_) = [line for line in lines if line["event"] == "visit_failed"]
    assert "private" in said["reason"]
    assert said["exc_info"] is None
