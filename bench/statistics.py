"""What a tick's statistics cost (SPEC 3.1): with the number of new posts, and with the size of the archive."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench.engines import Engines, started_engines
from bench.figure import RESULTS, Figure
from telegram_assistant.ingest.silence import SilenceWatch
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.rhythms import Intervals
from telegram_assistant.wiring.roles import collect_garbage_less

START = datetime(2026, 1, 14, 12, tzinfo=UTC)  # a Wednesday at noon
CHANNELS = 10_000
SMALL, LARGE = 200_000, 2_000_000  # posts
NEW = (0, 1_000, 10_000)  # posts that come between two ticks
TICKS = 4  # are measured together: PostgreSQL's CPU time is told in hundredths of a second
INTERVAL = timedelta(minutes=5)
WINDOW, ALL = timedelta(days=14), timedelta(days=140)

ADD_CHANNELS = """
    INSERT INTO channels (id, title, username, requested_from, last_post_at, last_success_at)
    SELECT n, 'Channel ' || n, 'channel_' || n, 1, $2, $2 FROM generate_series(1, $1) AS n
"""
# As capture leaves them: the posts of a channel lie far apart.
ADD_POSTS = """
    INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash)
    SELECT uuidv7(), n % $2::bigint + 1, n / $2::bigint + 1, $4::timestamptz + random() * ($5::timestamptz - $4),
        repeat('Совет директоров утвердил отчёт. ', 3), ''
    FROM generate_series($3::bigint, $1::bigint - 1) AS n
"""
ADD_NEW = """
    WITH chosen AS (
        SELECT id, captured FROM channels ORDER BY (id - $2::bigint + 10 * $1::bigint) % $3::bigint LIMIT $1
    ), added AS (
        INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash)
        SELECT uuidv7(), id, 1000000 + extract(epoch FROM $4::timestamptz)::bigint, $4, 'new', '' FROM chosen
    )
    UPDATE channels SET captured = channels.captured + 1, last_post_at = $4 FROM chosen WHERE channels.id = chosen.id
"""
INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'posts' AND indexname LIKE 'ix%'"


@dataclass(frozen=True)
class Cost:
    """Of one tick's statistics, in seconds; and of how many channels they were computed anew."""

    ours: float
    postgres: float
    wall: float
    renewed: float

    @property
    def cpu(self) -> float:
        return self.ours + self.postgres


class Bench:
    """Statistics and silence watch as the ingest role wires them, and a clock that is set by hand."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._now = START
        self._next = 0

    def _clock(self) -> datetime:
        return self._now

    async def add_posts(self, first: int, count: int, since: datetime, until: datetime) -> None:
        async with raw_transaction(self._engines.database) as connection:
            await connection.execute("SET LOCAL session_replication_role = replica")  # no foreign keys to look up
            indexes = await connection.fetch(INDEXES)
            for name, _ in indexes:
                await connection.execute(f"DROP INDEX {name}")
            await connection.execute(ADD_POSTS, first + count, CHANNELS, first, since, until)
            for _, definition in indexes:
                await connection.execute(definition)
            await connection.execute("UPDATE channels SET captured = captured + $1", count // CHANNELS)

    async def costs(self, window: timedelta) -> list[Cost]:
        """With each number of new posts, after everything has settled."""
        statistics = Statistics(
            self._engines.redis, Intervals(self._engines.database), window=window, clock=self._clock
        )
        watch = SilenceWatch(
            Channels(self._engines.database), statistics, self._engines.redis, owner="bench", clock=self._clock
        )
        async with raw_transaction(self._engines.database) as connection:
            await connection.execute("UPDATE channels SET intervals = NULL")
        await self._calm()
        while await statistics.renew():
            pass
        await watch.check()
        await self._calm()
        return [await self._cost(watch, new) for new in NEW]

    async def _cost(self, watch: SilenceWatch, new: int) -> Cost:
        """Some ticks, with so many new posts before each; only the ticks are counted."""
        ours = postgres = renewed = 0.0
        walls = []
        for _ in range(TICKS):
            await self._arrive(new)
            before, cpu, began = self._engines.postgres_cpu(), time.process_time(), time.perf_counter()
            await watch.check()
            walls.append(time.perf_counter() - began)
            ours += time.process_time() - cpu
            postgres += self._engines.postgres_cpu() - before
            renewed += await self._renewed()
        return Cost(ours / TICKS, postgres / TICKS, min(walls), renewed / TICKS)

    async def _arrive(self, new: int) -> None:
        self._now += INTERVAL
        if not new:
            return
        async with raw_transaction(self._engines.database) as connection:
            await connection.execute(ADD_NEW, new, self._next, CHANNELS, self._now - timedelta(seconds=20))
        self._next += new

    async def _renewed(self) -> int:
        async with raw_transaction(self._engines.database) as connection:
            statement = "SELECT count(*) FROM channels WHERE (intervals ->> 'at')::timestamptz = $1"
            return int(await connection.fetchval(statement, self._now))

    async def _calm(self) -> None:
        async with self._engines.database.connect() as connection:
            vacuuming = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await vacuuming.exec_driver_sql("VACUUM ANALYZE posts, channels")
            await vacuuming.exec_driver_sql("CHECKPOINT")


async def _measure() -> list[Figure]:
    async with started_engines() as engines:
        collect_garbage_less()
        bench = Bench(engines)
        async with raw_transaction(engines.database) as connection:
            await connection.execute(ADD_CHANNELS, CHANNELS, START)
        await bench.add_posts(0, SMALL, START - WINDOW + timedelta(days=1), START)
        small = await bench.costs(WINDOW)
        await bench.add_posts(SMALL, LARGE - SMALL, START - ALL + timedelta(days=1), START - WINDOW)
        old = await bench.costs(WINDOW)
        large = await bench.costs(ALL)
    _write({"200,000": small, "2,000,000, a tenth in the window": old, "2,000,000, all in the window": large})
    most = large[-1]
    return [
        Figure("statistics_tick_cpu", most.cpu, "CPU-s, 2,000,000 posts, 10,000 new", 1.0),
        Figure("statistics_tick_wall", most.wall, "s, 2,000,000 posts, 10,000 new", 1.0),
        Figure("statistics_tick_usual", large[1].cpu, "CPU-s, 2,000,000 posts, 1,000 new", 1.0),
        Figure("statistics_archive", old[1].cpu, "CPU-s, of 200,000 posts", small[1].cpu),
    ]


INTRODUCTION = """# A tick's statistics for 10,000 channels

The limit is 1 s. New posts come one per channel. In the last rows the window is so wide that all posts lie in it, the
worst that an archive can do. Wall time is that of the quickest of four ticks. `python -m bench statistics` writes this
page.

| posts | new since the last tick | our CPU, ms | PostgreSQL's CPU, ms | wall, ms | channels computed anew |
|---|---:|---:|---:|---:|---:|"""


def _write(costs: dict[str, list[Cost]]) -> None:
    lines = [INTRODUCTION]
    for posts, found in costs.items():
        for new, cost in zip(NEW, found, strict=True):
            lines.append(
                f"| {posts} | {new:,} | {cost.ours * 1e3:.0f} | {cost.postgres * 1e3:.0f} | {cost.wall * 1e3:.0f} |"
                f" {cost.renewed:,.0f} |"
            )
            print(lines[-1])
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "statistics.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def run() -> list[Figure]:
    """Under a second, and as much for a large archive as for a small one."""
    return asyncio.run(_measure())
