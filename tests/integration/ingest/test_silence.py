"""Statistics, thresholds and silence on real engines (SPEC 3.1-3.7), by number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from statistics import median, quantiles

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from structlog.testing import capture_logs

from telegram_assistant.domain.post import post_id
from telegram_assistant.domain.silence import EWMA_ALPHA, IntervalStats, arrivals, intervals
from telegram_assistant.ingest.silence import SilenceWatch
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.stores.postgres import rhythms
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.rhythms import Intervals
from tests.metrics import sample

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 7, 12, tzinfo=UTC)  # a Wednesday, 15:00 in Moscow
WINDOW = timedelta(days=14)


async def add_channel(database: AsyncEngine, channel_id: int, posts: Sequence[tuple[datetime, int | None]]) -> None:
    async with database.begin() as connection:
        await connection.execute(
            text("INSERT INTO channels (id, title, last_post_at) VALUES (:id, :title, :last)"),
            {"id": channel_id, "title": f"channel {channel_id}", "last": max((at for at, _ in posts), default=None)},
        )
    await add_posts(database, channel_id, posts)


async def add_posts(
    database: AsyncEngine, channel_id: int, posts: Sequence[tuple[datetime, int | None]], first: int = 1
) -> None:
    async with database.begin() as connection:
        for number, (at, grouped_id) in enumerate(posts, first):
            await connection.execute(
                text(
                    "INSERT INTO posts (id, channel_id, message_id, posted_at, content_hash, grouped_id)"
                    " VALUES (:id, :channel, :number, :at, '', :grouped)"
                ),
                {
                    "id": post_id(channel_id, number),
                    "channel": channel_id,
                    "number": number,
                    "at": at,
                    "grouped": grouped_id,
                },
            )


async def captured(database: AsyncEngine, channel_id: int, more: int) -> None:
    async with database.begin() as connection:
        await connection.execute(
            text("UPDATE channels SET captured = captured + :more WHERE id = :id"), {"id": channel_id, "more": more}
        )


def statistics(database: AsyncEngine, redis: Redis) -> Statistics:
    return Statistics(redis, Intervals(database), window=WINDOW, clock=lambda: NOW)


async def computed(database: AsyncEngine, *ids: int) -> dict[int, IntervalStats]:
    await Intervals(database).renew(NOW, NOW - WINDOW)
    return await Intervals(database).kept(ids)


def every(minutes: float, count: int, until: datetime = NOW) -> list[tuple[datetime, int | None]]:
    return [(until - timedelta(minutes=minutes * (count - 1 - i)), None) for i in range(count)]


async def test_spec_3_1_postgres_and_the_pure_rule_agree(database: AsyncEngine) -> None:
    posts: list[tuple[datetime, int | None]] = [
        (NOW - timedelta(minutes=(17 * i * i) % 5000 + i), 7 if i % 9 == 0 else None) for i in range(200)
    ]
    await add_channel(database, 1, posts)
    found = (await computed(database, 1))[1]
    expected = intervals(arrivals(posts))
    assert found.count == len(expected)
    assert found.median == pytest.approx(median(expected))
    assert found.p95 == pytest.approx(quantiles(expected, n=20, method="inclusive")[18])
    assert found.ewma == pytest.approx(reduce(lambda mean, value: mean + EWMA_ALPHA * (value - mean), expected))


async def test_spec_3_1_an_album_is_one_arrival_and_three_intervals_are_needed(database: AsyncEngine) -> None:
    album: list[tuple[datetime, int | None]] = [(NOW + timedelta(seconds=i), 5) for i in range(10)]
    await add_channel(database, 1, [*every(10, 3, NOW - timedelta(minutes=10)), *album])
    await add_channel(database, 2, every(10, 3))
    found = await computed(database, 1, 2)
    assert set(found) == {1}
    assert found[1].count == 3
    assert found[1].median == 600


async def test_spec_3_1_what_is_older_than_the_window_does_not_count(database: AsyncEngine) -> None:
    await add_channel(database, 1, [*every(10, 50, NOW - timedelta(days=20)), *every(60, 5)])
    found = await computed(database, 1)
    assert found[1].count == 4
    assert found[1].p95 == 3600


async def test_spec_3_1_the_cache_is_json_for_an_hour_and_dropped_after_a_parse(
    database: AsyncEngine, redis: Redis
) -> None:
    await add_channel(database, 1, every(10, 20))
    stats = statistics(database, redis)
    assert await stats.renew() == 1
    assert await redis.get("interarrival_stats:1") is None
    found = await stats.of(1)
    assert found is not None
    cached = json.loads(str(await redis.get("interarrival_stats:1")))
    assert set(cached) == {"count", "median", "p95", "ewma"}
    assert cached["median"] == found.median == 600
    assert 3590 < await redis.ttl("interarrival_stats:1") <= 3600
    assert await stats.renew() == 0, "nothing is new"
    assert await redis.get("interarrival_stats:1") is not None
    await captured(database, 1, 1)
    assert await stats.renew() == 1
    assert await redis.get("interarrival_stats:1") is None


async def test_spec_3_1_too_little_data_is_remembered_too(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 1, every(10, 2))
    stats = statistics(database, redis)
    assert await stats.of(1) is None
    assert await redis.get("interarrival_stats:1") == "null"
    assert await stats.of(1) is None


async def test_spec_3_1_new_posts_change_the_statistics_and_old_ones_leave_them(
    database: AsyncEngine, redis: Redis
) -> None:
    await add_channel(database, 1, every(60, 100))
    await add_channel(database, 2, every(10, 20))
    moment = [NOW]
    stats = Statistics(redis, Intervals(database), window=WINDOW, clock=lambda: moment[0])
    assert await stats.renew() == 2
    before = await stats.of(1)
    await add_posts(database, 1, [(NOW + timedelta(hours=40), None)], first=101)
    await captured(database, 1, 1)
    assert await stats.renew() == 1, "the other channel has nothing new"
    after = await stats.of(1)
    assert before is not None
    assert after is not None
    assert (after.count, after.p95) == (before.count + 1, 3600)
    assert after.ewma == pytest.approx(0.7 * 3600 + 0.3 * 40 * 3600)
    moment[0] = NOW + timedelta(days=15)  # nothing new came, and all is older than the window
    assert await stats.renew() == 2
    assert await stats.of(2) is None


async def test_spec_3_1_what_does_not_fit_into_one_tick_is_done_in_the_next(
    database: AsyncEngine, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those first whose statistics change most; nobody waits for ever."""
    monkeypatch.setattr(rhythms, "READ_ALWAYS", 160)
    monkeypatch.setattr(rhythms, "READ_PER_NEW", 1)
    for channel_id in (1, 2, 3):
        await add_channel(database, channel_id, every(10, 50))
    stats = statistics(database, redis)
    assert [await stats.renew() for _ in range(2)] == [3, 0]
    for channel_id, more in ((1, 1), (2, 9), (3, 1)):
        await captured(database, channel_id, more)
    renewed = [await stats.renew() for _ in range(3)]
    assert renewed == [2, 1, 0]


async def test_spec_3_1_a_locked_table_or_row_holds_up_no_tick(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 1, every(10, 20))
    await add_channel(database, 2, every(10, 20))
    stats = statistics(database, redis)
    async with database.begin() as connection:
        await connection.execute(text("LOCK TABLE posts IN ACCESS EXCLUSIVE MODE"))
        assert await stats.renew() == 0
    async with database.begin() as connection:
        await connection.execute(text("SELECT 1 FROM channels WHERE id = 1 FOR UPDATE"))
        assert await stats.renew() == 1
    assert await stats.renew() == 1


async def look(database: AsyncEngine, redis: Redis, now: datetime, *, adaptive: bool = True) -> int:
    watch = SilenceWatch(
        Channels(database), statistics(database, redis), redis, owner="test", clock=lambda: now, adaptive=adaptive
    )
    return await watch.check()


async def due(database: AsyncEngine) -> list[int]:
    async with database.connect() as connection:
        rows = await connection.execute(text("SELECT id FROM channels WHERE next_visit_at IS NOT NULL ORDER BY id"))
        return [row.id for row in rows]


def gauge(name: str, channel_id: int) -> float | None:
    return REGISTRY.get_sample_value(name, {"channel_id": str(channel_id)})


async def test_spec_3_4_unusual_silence_is_looked_at_once_per_window(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 61, every(10, 50))  # p95 600 s: threshold 30 min
    await add_channel(database, 62, every(240, 50))  # p95 4 h: threshold 6 h
    later = NOW + timedelta(minutes=40)
    assert await look(database, redis, later) == 1
    assert await due(database) == [61]
    assert await look(database, redis, later + timedelta(minutes=5)) == 0  # the same window: the job exists
    assert gauge("adaptive_threshold_seconds", 61) == 1800
    assert gauge("adaptive_threshold_seconds", 62) == 21600
    assert gauge("channel_gap_seconds", 61) == 2700
    job = f"backfill_job:61:{NOW.isoformat()}"
    assert await redis.get(job) == "1"
    assert 86390 < await redis.ttl(job) <= 86400
    assert await redis.get("lock:backfill:61") == "test"
    assert 3590 < await redis.ttl("lock:backfill:61") <= 3600


async def test_spec_3_4_a_gap_starts_a_backfill_under_the_lock_of_3_6(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 69, every(10, 50))
    moment = [NOW + timedelta(hours=2)]
    watch = SilenceWatch(Channels(database), statistics(database, redis), redis, owner="test", clock=lambda: moment[0])
    await redis.set("lock:backfill:69", "another", ex=3600)
    assert await watch.check() == 0, "another process backfills it"
    assert await due(database) == []
    await redis.delete("lock:backfill:69")
    assert await watch.check() == 1
    assert await due(database) == [69]
    assert await redis.get("lock:backfill:69") == "test"
    await visited(database, 69, moment[0] + timedelta(seconds=5))
    moment[0] += timedelta(minutes=5)
    assert await watch.check() == 0
    assert await redis.get("lock:backfill:69") is None, "it is done"


async def test_the_log_speaks_of_statistics_and_thresholds(database: AsyncEngine, redis: Redis) -> None:
    """As operators look for them (seed 004)."""
    await add_channel(database, 70, every(10, 50))
    with capture_logs() as logs:
        await look(database, redis, NOW + timedelta(minutes=40))
    told = [line["event"] for line in logs]
    assert "interarrival stats" in told
    assert "adaptive threshold exceeded" in told
    assert "adaptive thresholds" in told


async def test_spec_3_2_fixed_hour_without_the_feature_or_data(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 63, every(10, 50))
    assert await look(database, redis, NOW + timedelta(minutes=59), adaptive=False) == 0
    assert gauge("adaptive_threshold_seconds", 63) == 3600
    assert await look(database, redis, NOW + timedelta(minutes=61), adaptive=False) == 1


async def test_spec_3_4_a_post_from_the_future_is_no_gap(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 64, every(10, 5, NOW + timedelta(hours=3)))
    assert await look(database, redis, NOW) == 0
    assert gauge("channel_gap_seconds", 64) == 0


async def test_spec_3_3_the_channels_own_zone_counts(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 65, every(60, 50))
    async with database.begin() as connection:
        await connection.execute(text("UPDATE channels SET timezone = 'America/New_York'"))
    await look(database, redis, NOW)  # noon UTC is 7 in the morning there: still night
    assert gauge("adaptive_threshold_seconds", 65) == pytest.approx(3600 * 1.5 * 1.5)


async def test_spec_3_6_a_look_is_counted_when_it_is_over(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 66, every(10, 5))
    moment = [NOW + timedelta(hours=2)]
    watch = SilenceWatch(Channels(database), statistics(database, redis), redis, owner="test", clock=lambda: moment[0])
    assert await watch.check() == 1
    jobs = {
        status: ("backfill_jobs_total", {"channel_id": "66", "status": status}) for status in ("enqueued", "completed")
    }
    assert REGISTRY.get_sample_value(*jobs["enqueued"]) == 1
    await watch.check()
    assert REGISTRY.get_sample_value(*jobs["completed"]) is None  # nobody has looked yet
    async with database.begin() as connection:
        await connection.execute(
            text("UPDATE channels SET last_success_at = :at"), {"at": moment[0] + timedelta(seconds=3)}
        )
    moment[0] += timedelta(minutes=5)
    await watch.check()
    assert REGISTRY.get_sample_value(*jobs["completed"]) == 1


async def visited(database: AsyncEngine, channel_id: int, at: datetime, *posts: datetime) -> None:
    """A visit that succeeds then, and what it finds."""
    await add_posts(database, channel_id, [(moment, None) for moment in posts], first=1000)
    async with database.begin() as connection:
        await connection.execute(
            text("UPDATE channels SET last_success_at = :at, last_post_at = greatest(last_post_at, :newest)"),
            {"at": at, "newest": max(posts, default=None)},
        )


@pytest.mark.parametrize(
    "outcome,posts",
    [
        pytest.param("silent", [], id="nothing"),
        pytest.param("news", [115], id="a post since the last visit"),
        pytest.param("news", [109.5], id="a post that overtook the last visit"),
        pytest.param("hole", [30], id="a post that the last visit should have seen"),
        pytest.param("hole", [30, 121], id="and one that was made since"),
    ],
)
async def test_spec_3_4_what_a_look_proves_decides_not_the_silence(
    outcome: str, posts: list[float], database: AsyncEngine, redis: Redis
) -> None:
    await add_channel(database, 67, every(10, 50))
    await visited(database, 67, NOW + timedelta(minutes=110))
    moment = [NOW + timedelta(minutes=120)]
    watch = SilenceWatch(Channels(database), statistics(database, redis), redis, owner="test", clock=lambda: moment[0])
    before = looks()
    assert await watch.check() == 1
    assert looks() == before, "nobody has looked yet"
    await visited(database, 67, moment[0] + timedelta(seconds=5), *(NOW + timedelta(minutes=at) for at in posts))
    moment[0] += timedelta(minutes=5)
    await watch.check()
    assert {name: count - before[name] for name, count in looks().items() if count != before[name]} == {outcome: 1}


def looks() -> dict[str, float]:
    return {outcome: sample("silence_looks_total", outcome=outcome) for outcome in ("silent", "news", "hole")}


async def test_spec_3_4_a_gap_is_logged_with_its_quiet_hours(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 68, every(10, 50))
    with capture_logs() as logs:
        await look(database, redis, NOW + timedelta(days=3))  # Saturday
    (line,) = [entry for entry in logs if entry["event"] == "adaptive threshold exceeded"]
    assert (line["channel"], line["quiet_hours"]) == ("channel 68", "weekend")
    assert (line["gap"], line["threshold"]) == (3 * 86400, 1800 * 1.8)


async def test_spec_3_7_the_longest_silence_is_told_to_older_dashboards(database: AsyncEngine, redis: Redis) -> None:
    await add_channel(database, 69, every(10, 50))
    await add_channel(database, 70, every(10, 50, NOW - timedelta(hours=5)))
    await look(database, redis, NOW + timedelta(hours=1))
    assert REGISTRY.get_sample_value("posts_missing_duration_seconds") == 6 * 3600
    async with database.begin() as connection:
        await connection.execute(text("UPDATE channels SET last_post_at = :now"), {"now": NOW + timedelta(hours=2)})
    await look(database, redis, NOW + timedelta(hours=2))
    assert REGISTRY.get_sample_value("posts_missing_duration_seconds") == 0
