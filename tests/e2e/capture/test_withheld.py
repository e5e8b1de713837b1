"""Posts that show long after they were made, and pages that leave some out: all are found, and no silence is a hole.

The clock is the world's own, and is moved: the readings that are due in a quarter of an hour or in a day come at once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.names import POSTS_DELETED, low_watermark
from telegram_assistant.stores.postgres.channels import Channels
from telegram_simulator.clock import Clock
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Ids, Message
from tests.metrics import sample

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SETTINGS = {"parser_scheduler_interval_sec": 60, "polling_bound_sec": 60, "feature_predictive_polling_enabled": False}


@pytest.fixture
def clock(town: Town) -> Clock:
    """The clock of the world and of capture. It is ahead of the real one: what PostgreSQL calls now is never later."""
    town.world.now = made = Clock(datetime.now(UTC))
    return made


def later(town: Town, channel: Channel, lateness: timedelta) -> None:
    """A post that nobody sees for a while."""
    number, now = town.world.next_id(channel), town.world.now()
    made = Message(number, now, f"Late post {number}")
    town.world.post(channel, made, visible_at=now + lateness)


async def caught_up(town: Town, store: Store, *channels: Channel) -> None:
    """Everything that can be seen is here; the world shows what is due only when somebody asks."""
    town.world.reveal()
    await store.captured(*channels)


async def test_posts_that_show_late_are_found_whatever_their_age(
    town: Town, store: Store, capture: Capture, clock: Clock
) -> None:
    news = town.open("daily_news", 30)  # not joined: nobody is told of anything
    await store.watch(news)
    found = sample("ledger_late_posts_total")
    missing = sample("audit_disagreements_total", kind="missing")
    # An audit every second: what is older than a week is for the audits to find.
    await capture.start(clock=clock, audit_interval_hours=1 / 3600, **SETTINGS)
    await store.captured(news)
    lateness = [10 * MINUTE, 3 * HOUR, 30 * HOUR, 4 * DAY, 12 * DAY]
    began = clock()
    for wait in lateness:
        later(town, news, wait)
        town.say(news, at=clock())
    clock.advance_to(began + 2 * MINUTE)
    await store.captured(news)
    ledger = await store.ledger(news)
    assert (ledger.unknown, ledger.proven_up_to, ledger.empty) == (0, 40, 5), "proven, and wrongly so"
    for number, wait in enumerate(lateness, 1):
        clock.advance_to(began + wait + HOUR)
        await caught_up(town, store, news)
        assert sample("ledger_late_posts_total") - found == number
    assert len(await store.texts(news)) == 40
    assert sample("audit_disagreements_total", kind="missing") > missing
    assert (await store.ledger(news)).empty == 0


@pytest.mark.parametrize("ids", [Ids.SPARSE])
@pytest.mark.parametrize("action", ["lose_oldest", "lose_middle", "lose_newest"])
async def test_pages_that_leave_messages_out_leave_no_hole(
    action: str, town: Town, store: Store, capture: Capture, clock: Clock
) -> None:
    """No audit helps here: a page with room left proves less, and what is at the newest end is read again in a day."""
    news = town.open("daily_news", 420, over=30 * DAY)
    town.world.delete(news, list(news.messages)[40:350:7])
    town.sim.faults.add(Fault(action, "messages.getHistory", probability=0.5, times=8))
    await store.watch(news)
    await capture.start(clock=clock, **SETTINGS)
    await store.until(lambda: store.row(news), "its row")
    await Channels(store.database).ask_history(news.id, None)

    async def asked() -> bool:
        return bool((await store.ledger(news)).requested_from == 1)

    await store.until(asked, "somebody asked for all of it")
    while town.sim.faults.fired[action] < 8:
        clock.advance_to(clock() + 16 * MINUTE)
        town.say(news, at=clock())
        await store.ticks(1)
    clock.advance_to(clock() + 25 * HOUR)
    await store.captured(news)
    ledger = await store.ledger(news)
    assert (ledger.unknown, ledger.captured, ledger.newest_id) == (0, len(news.messages), news.newest_id)
    await store.published()
    assert await store.events(POSTS_DELETED) == [], "what a page leaves out is not deleted"
    assert await store.redis.get(low_watermark(news.id)) is not None


async def test_a_silent_channel_is_looked_at_and_has_no_hole(
    town: Town, store: Store, capture: Capture, clock: Clock
) -> None:
    news = town.open("daily_news", 60, over=10 * HOUR)  # every ten minutes
    slow = town.open("slow_news", 5, over=10 * HOUR)
    await store.watch(news, slow)
    before = {outcome: sample("silence_looks_total", outcome=outcome) for outcome in ("silent", "hole")}
    late = sample("ledger_late_posts_total")
    await capture.start(clock=clock, **SETTINGS)
    await store.captured(news, slow)
    began = clock()
    for hours in (1, 2, 3, 12, 24):
        clock.advance_to(began + timedelta(hours=hours))
        await store.ticks(1)
        for channel in (news, slow):
            assert (await store.ledger(channel)).unknown == 0

    def looked() -> bool:
        return bool(sample("silence_looks_total", outcome="silent") - before["silent"] >= 2)

    clock.advance_to(began + timedelta(hours=25))
    await store.until(looked, "both were looked at")
    assert sample("silence_looks_total", outcome="hole") == before["hole"]
    assert sample("ledger_late_posts_total") == late
    assert (await store.texts(news)).keys() == news.messages.keys()


async def test_posts_withheld_during_a_silence_are_a_hole_that_is_filled(
    town: Town, store: Store, capture: Capture, clock: Clock
) -> None:
    """Several visits find nothing, though there were posts: the look at the silence finds them, and says so."""
    news = town.open("daily_news", 60, over=10 * HOUR)
    await store.watch(news)
    holes = sample("silence_looks_total", outcome="hole")
    await capture.start(clock=clock, **SETTINGS)
    await store.captured(news)
    began, shown = clock(), set(news.messages)
    clock.advance_to(began + 5 * MINUTE)
    for _ in range(2):
        later(town, news, DAY)
    clock.advance_to(began + 20 * MINUTE)

    async def visited() -> bool:
        return bool((await store.row(news)).last_success_at > began + 20 * MINUTE)

    await store.until(visited, "a visit that finds nothing")
    assert (await store.texts(news)).keys() == shown
    town.world.reveal(began + 2 * DAY)
    town.sim.faults.add(Fault("slow", "messages.getHistory", seconds=1))  # the silence is seen before they are
    clock.advance_to(began + 3 * HOUR)
    await store.captured(news)

    async def over() -> bool:
        return bool((await store.row(news)).last_success_at >= began + 3 * HOUR)

    await store.until(over, "the visit is over: a later clock would end its lease")

    def called() -> bool:
        return bool(sample("silence_looks_total", outcome="hole") == holes + 1)

    clock.advance_to(began + 3 * HOUR + 5 * MINUTE)
    await store.until(called, "it is called a hole")
