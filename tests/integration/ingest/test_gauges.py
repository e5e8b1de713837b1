"""The gauges about channels, between visits: what has grown old, who is there, and who is not any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.ingest import gauges as gauges_job
from telegram_assistant.ingest.gauges import Gauges
from telegram_assistant.ingest.scheduler import Scheduler
from telegram_assistant.metrics import CHANNEL_LABELS, REGISTRY
from telegram_assistant.names import SCHEDULER_LAST_TICK, parse_hwm
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.redis import time_to_text

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 7, 12, tzinfo=UTC)


async def add_channel(database: AsyncEngine, channel_id: int, status: str = "active") -> None:
    statement = text("INSERT INTO channels (id, title, status) VALUES (:id, :title, :status)")
    async with database.begin() as connection:
        await connection.execute(statement, {"id": channel_id, "title": f"channel {channel_id}", "status": status})


def shown(name: str, **labels: object) -> float | None:
    return REGISTRY.get_sample_value(name, {label: str(value) for label, value in labels.items()})


async def test_spec_2_2_the_age_of_a_mark_grows_while_nobody_parses(database: AsyncEngine, redis: Redis) -> None:
    """What the alert of SPEC 6.3 is about: a parse that was interrupted, and nobody went on."""
    await add_channel(database, 881)
    await redis.set(parse_hwm(881), time_to_text(NOW - timedelta(hours=20)))
    moment = NOW
    gauges = Gauges(Channels(database), redis, clock=lambda: moment)
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=881) == 20 * 3600
    moment = NOW + timedelta(hours=5)
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=881) == 25 * 3600
    await redis.delete(parse_hwm(881))
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=881) == 0


async def test_n9_old_posts_that_are_read_again_are_no_parse_that_is_late(database: AsyncEngine, redis: Redis) -> None:
    """A flood in the middle of reading a week again leaves a mark of last week; the channel was read a minute ago."""
    await add_channel(database, 882)
    async with database.begin() as connection:
        values = {"at": NOW - timedelta(minutes=1)}
        await connection.execute(text("UPDATE channels SET last_success_at = :at WHERE id = 882"), values)
    await redis.set(parse_hwm(882), time_to_text(NOW - timedelta(days=6)))
    moment = NOW
    gauges = Gauges(Channels(database), redis, clock=lambda: moment)
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=882) == 60
    moment = NOW + timedelta(days=1)
    await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=882) == 86460, "but one that never ends is told"
    await redis.delete(parse_hwm(882))


async def test_a_removed_channel_has_no_series_any_more(database: AsyncEngine, redis: Redis) -> None:
    for channel_id, status in ((882, "active"), (883, "dead")):
        await add_channel(database, channel_id, status)
    gauges = Gauges(Channels(database), redis, clock=lambda: NOW)
    await gauges.look()
    assert (shown("channels", status="active"), shown("channels", status="dead")) == (1, 1)
    assert shown("ledger_unknown_ids", channel_id=883) == 0
    async with database.begin() as connection:
        await connection.execute(text("UPDATE channels SET status = 'removed' WHERE id = 883"))
    await gauges.look()
    assert (shown("channels", status="active"), shown("channels", status="dead")) == (1, 0)
    assert shown("ledger_unknown_ids", channel_id=883) is None
    assert shown("ledger_unknown_ids", channel_id=882) == 0


async def test_spec_1_9_who_takes_over_shows_the_last_tick(database: AsyncEngine, redis: Redis) -> None:
    """Between a restart and the next tick freshness is told, and not since 1970."""
    ticked = NOW - timedelta(seconds=100)
    await redis.set(SCHEDULER_LAST_TICK, time_to_text(ticked))

    async def watch() -> int:
        raise AssertionError("it is not time for a tick")

    scheduler = Scheduler(
        Channels(database), redis, owner="new", interval=300, clock=lambda: NOW, due=asyncio.Event(), watch=watch
    )
    supervisor = Supervisor()
    task = await supervisor.start("scheduler", scheduler.run)
    for _ in range(3000):
        if task.last_progress is not None:
            break
        await asyncio.sleep(0.01)
    await supervisor.stop(["scheduler"])
    assert shown("scheduler_last_tick_ts_seconds") == ticked.timestamp()
    assert shown("scheduler_interval_seconds") == 300


@pytest.fixture
def few_series() -> Iterator[None]:
    """As with METRICS_MAX_CHANNELS=2."""
    CHANNEL_LABELS.limit = 2
    yield
    CHANNEL_LABELS.limit, CHANNEL_LABELS.total = None, 0


@pytest.mark.usefixtures("few_series")
async def test_more_channels_than_series_are_told_together(database: AsyncEngine, redis: Redis) -> None:
    """PostgreSQL combines them; the values are those that Python makes of every channel's own."""
    coverages = {891: "{[1,101)}", 892: "{[1,40),[60,101)}", 893: "{[20,101)}", 894: "{}"}
    for number, (channel_id, coverage) in enumerate(coverages.items(), 1):
        await add_channel(database, channel_id)
        statement = text(
            "UPDATE channels SET coverage = CAST(CAST(:coverage AS text) AS int8multirange),"
            " requested_from = 1, newest_id = 100, captured = :posts, last_success_at = :at, last_post_at = :at"
            " WHERE id = :id"
        )
        at = NOW - timedelta(minutes=number)
        async with database.begin() as connection:
            values = {"id": channel_id, "coverage": coverage, "posts": 10 * number, "at": at}
            await connection.execute(statement, values)
    await redis.set(parse_hwm(893), time_to_text(NOW - timedelta(hours=2)))
    gauges = Gauges(Channels(database), redis, clock=lambda: NOW)
    await gauges.look()
    standings = await Channels(database).standings()
    assert shown("ledger_unknown_ids", channel_id="all") == sum(one.requested - one.known for one in standings) == 139
    assert shown("ledger_coverage_percent", channel_id="all") == min(
        100 * one.known / one.requested for one in standings
    )
    assert shown("ledger_proven_up_to", channel_id="all") == min(one.proven_up_to for one in standings)
    assert shown("incremental_watermark_age_seconds", channel_id="all") == 240
    assert shown("parser_hwm_age_seconds", channel_id="all") == 180, "since it was read"
    assert shown("ledger_unknown_ids", channel_id=892) is None
    report = await gauges.report()
    assert (report["channels"], report["captured"], report["unknown"]) == (4, 100, 139)
    assert [one["captured"] for one in report["listed"]] == [40, 30, 20, 10]


async def test_the_marks_of_very_many_channels_are_read_by_turns(
    database: AsyncEngine, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges_job, "MARKS", 2)
    for channel_id in range(901, 906):
        await add_channel(database, channel_id)
    await redis.set(parse_hwm(905), time_to_text(NOW - timedelta(hours=1)))
    gauges = Gauges(Channels(database), redis, clock=lambda: NOW)
    for _ in range(3):
        await gauges.look()
    assert shown("parser_hwm_age_seconds", channel_id=905) == 3600
