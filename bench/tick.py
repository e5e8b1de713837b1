"""What watching costs when there is nothing to do: with the number of channels, and with the length of the history.

The tick, and beside it all that looks at every channel now and then: gauges, the search for work and for holes, health.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from prometheus_client.exposition import generate_latest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.engines import Engines, started_engines
from bench.figure import RESULTS, Figure
from telegram_assistant.domain.polling import PollingRules, observe
from telegram_assistant.ingest.audit import HOLD
from telegram_assistant.ingest.audit import IDLE_SECONDS as AUDITS_IDLE
from telegram_assistant.ingest.backfill import rest_after
from telegram_assistant.ingest.gauges import EVERY_SECONDS, EVERY_SECONDS_TOGETHER, Gauges
from telegram_assistant.ingest.polling import Capacity, Polling
from telegram_assistant.ingest.roster import BEATS
from telegram_assistant.ingest.scheduler import Scheduler
from telegram_assistant.ingest.silence import SilenceWatch
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.ingest.visits import IDLE_SECONDS as VISITS_IDLE
from telegram_assistant.metrics import CHANNEL_LABELS, REGISTRY
from telegram_assistant.stores.postgres.accounts import AccountLeases, TelegramAccounts
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.rhythms import Intervals, Rhythms
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.roles import collect_garbage_less

NOW = datetime(2026, 1, 14, 12, tzinfo=UTC)  # a Wednesday at noon, when silence is strange
SIZES = (100, 1_000, 10_000)  # channels
MANY = 100_000  # channels, after the histories
HISTORIES = (10_000, 100_000, 1_000_000)  # posts, with the largest number of SIZES
MOST_SHARE = 5.0  # percent of a core that all looks together may take with MANY channels
TICK_SECONDS = 300.0  # PARSER_SCHEDULER_INTERVAL_SEC
SCRAPE_SECONDS = 15.0  # Prometheus, or a probe of health
LEASE_SECONDS = 30.0  # of an account
PER_ACCOUNT = 500  # channels that an account may join
TICKS = 5  # are measured together: PostgreSQL's CPU time is told in hundredths of a second

CHANNELS = """
    INSERT INTO channels (id, title, username, requested_from, cursor_id, newest_id, coverage, captured,
        last_post_at, last_parsed_at, last_success_at, next_visit_at, intervals,
        planned_at, plan_price, appetite, rhythm, rhythm_since)
    SELECT n, 'Channel ' || n, 'channel_' || n, 1, 500, 500, '{[1,501)}', 500,
        $2::timestamptz - interval '5 minutes', $2, $2, $2::timestamptz + interval '1 minute',
        jsonb_build_object('count', 100, 'median', 600, 'p95', 3600, 'ewma', 700, 'captured', 500, 'at', $2),
        $2::timestamptz + interval '1 minute', 5, 0.01 / n, $3::jsonb, $2::timestamptz - interval '20 days'
    FROM generate_series((SELECT count(*) FROM channels) + 1, $1) AS n
"""
AUDITS = """
    INSERT INTO channel_audits (channel_id, pts, next_at)
    SELECT id, 1000, $1::timestamptz + interval '6 hours' FROM channels ON CONFLICT DO NOTHING
"""
ACCOUNTS = """
    INSERT INTO telegram_accounts (tenant_id, telegram_user_id, name, session)
    SELECT t.id, n, 'Reader ' || n, 'sealed'::bytea FROM tenants t, generate_series(1, $1::int) AS n
    WHERE t.name = 'system' ON CONFLICT DO NOTHING
"""
POSTS = """
    INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash)
    SELECT gen_random_uuid(), n % $2 + 1, n / $2 + 1, $3::timestamptz - interval '1 day' + n * interval '1 ms',
        repeat('Совет директоров утвердил отчёт. ', 5), md5(n::text)
    FROM generate_series((SELECT count(*) FROM posts), $1 - 1) AS n
"""


@dataclass(frozen=True)
class Cost:
    """Of one tick: CPU seconds of this process and of PostgreSQL, and how many statements it took."""

    ours: float
    postgres: float
    statements: int

    @property
    def cpu(self) -> float:
        return self.ours + self.postgres


@contextmanager
def counted(database: AsyncEngine) -> Iterator[list[str]]:
    """The statements that are executed meanwhile."""
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        found.append(statement)

    event.listen(database.sync_engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(database.sync_engine, "before_cursor_execute", note)


class Clockwork:
    """Scheduler, silence watch, polling and health as the ingest role wires them."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._channels = Channels(engines.database)
        self._audits = Audits(engines.database)
        self._leases = AccountLeases(engines.database, "bench", ttl=LEASE_SECONDS, is_gone=lambda _: False)
        self._gauges = Gauges(self._channels, engines.redis, clock=lambda: NOW)
        CHANNEL_LABELS.limit = 500  # METRICS_MAX_CHANNELS
        statistics = Statistics(
            engines.redis, Intervals(engines.database), window=timedelta(days=14), clock=lambda: NOW
        )
        silence = SilenceWatch(self._channels, statistics, engines.redis, owner="bench", clock=lambda: NOW)
        self._scheduler = Scheduler(
            self._channels,
            engines.redis,
            owner="bench",
            interval=60,
            clock=lambda: NOW,
            due=asyncio.Event(),
            watch=silence.check,
            polling=self._polling(),
        )

    def _polling(self) -> Polling:
        engines = self._engines
        capacity = Capacity(TelegramAccounts(engines.database, Sealer("bench")), clock=lambda: NOW)
        rules = PollingRules(fixed=60)
        return Polling(Rhythms(engines.database), engines.redis, rules=rules, clock=lambda: NOW, capacity=capacity)

    async def cost(self) -> Cost:
        await self._tick()  # plans and caches are warm in a process that ticks all day
        with counted(self._engines.database) as statements:
            postgres, ours = self._engines.postgres_cpu(), time.process_time()
            for _ in range(TICKS):
                await self._tick()
            ours = time.process_time() - ours
        postgres = self._engines.postgres_cpu() - postgres
        return Cost(ours / TICKS, postgres / TICKS, len(statements) // TICKS)

    def looks(self) -> dict[str, tuple[float, Callable[[], Awaitable[object]]]]:
        """All that looks at the channels without being asked: how often, and what."""
        gauges = EVERY_SECONDS if CHANNEL_LABELS.shown else EVERY_SECONDS_TOGETHER
        return {
            "tick": (TICK_SECONDS, self._tick),
            "gauges": (gauges, self._gauges.look),
            "work that is due": (VISITS_IDLE, self._lease),
            "audits": (AUDITS_IDLE, self._plan_audits),
            "accounts": (LEASE_SECONDS / BEATS, self._leases.beat),
            "holes": (rest_after(0), partial(self._channels.with_holes, limit=50)),
            "health": (SCRAPE_SECONDS, self._scheduler.report_parser),
            "metrics": (SCRAPE_SECONDS, self._scrape),
        }

    async def shares(self) -> dict[str, float]:
        """Percent of a core that each look takes at its usual interval."""
        found = {}
        for name, (every, look) in self.looks().items():
            await look()
            postgres, ours, began = self._engines.postgres_cpu(), time.process_time(), time.monotonic()
            for _ in range(TICKS):
                await look()
            used = time.process_time() - ours + self._engines.postgres_cpu() - postgres
            took = (time.monotonic() - began) / TICKS
            found[name] = 100.0 * used / TICKS / (rest_after(took) if name == "holes" else every)
        return found

    async def _plan_audits(self) -> None:
        """A look for a turn, and for the gauge of what waits."""
        if await self._audits.take(NOW, HOLD) is not None:
            raise RuntimeError("an audit was due")
        await self._audits.waiting()

    async def _lease(self) -> None:
        await self._channels.lease("bench", limit=4, now=NOW, ttl=timedelta(minutes=5))

    async def _scrape(self) -> None:
        generate_latest(REGISTRY)

    async def _tick(self) -> None:
        """The tick itself, one look of a visitor for work, and one of a person at the health page."""
        if not await self._scheduler.lock.hold():
            raise RuntimeError("another process holds the lock")
        due = await self._scheduler.tick()
        taken = await self._channels.lease("bench", limit=4, now=NOW, ttl=timedelta(minutes=5))
        report = await self._scheduler.report_parser()
        if due or taken or report["status"] != "ok":
            raise RuntimeError(f"something was to do: {due} due, {len(taken)} taken, {report}")


async def _measure() -> list[Figure]:
    async with started_engines() as engines:
        collect_garbage_less()
        clockwork = Clockwork(engines)
        rhythm = _rhythm()
        by_channels, by_history = {}, {}
        for count in SIZES:
            await _fill(engines, CHANNELS, count, NOW, rhythm)
            by_channels[count] = await clockwork.cost()
        for count in HISTORIES:
            await _fill(engines, POSTS, count, SIZES[-1], NOW)
            by_history[count] = await clockwork.cost()
        shares = {SIZES[-1]: await _shares(engines, clockwork, SIZES[-1])}
        await _fill(engines, CHANNELS, MANY, NOW, rhythm)
        shares[MANY] = await _shares(engines, clockwork, MANY)
    _write_table(by_channels, by_history, shares)
    return [*_figures(by_channels, by_history), *_share_figures(shares)]


async def _shares(engines: Engines, clockwork: Clockwork, channels: int) -> dict[str, float]:
    await _fill(engines, ACCOUNTS, channels // PER_ACCOUNT)
    await _fill(engines, AUDITS, NOW)
    return await clockwork.shares()


def _rhythm() -> str:
    """Of twenty days with a post every ten minutes or so: no sum is empty."""
    posts = [NOW - timedelta(seconds=611 * number) for number in range(20 * 24 * 6)]
    return json.dumps(observe(None, posts, NOW).to_json())


async def _fill(engines: Engines, statement: str, *values: object) -> None:
    async with raw_transaction(engines.database) as connection:
        await connection.execute(statement, *values)
    async with engines.database.connect() as connection:
        vacuuming = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await vacuuming.exec_driver_sql("VACUUM ANALYZE")  # as autovacuum would do it, at a moment of its own choice
        await vacuuming.exec_driver_sql("CHECKPOINT")


def _figures(by_channels: dict[int, Cost], by_history: dict[int, Cost]) -> list[Figure]:
    few, many = by_channels[SIZES[0]], by_channels[SIZES[-1]]
    young, old = by_history[HISTORIES[0]], by_history[HISTORIES[-1]]
    return [
        Figure("tick_cpu_10000_channels", many.cpu, "CPU-s", 1.0),
        Figure("tick_statements_10000_channels", many.statements, "statements", few.statements),
        Figure("tick_cpu_per_channel", many.cpu / SIZES[-1] * 1e6, "CPU-µs", few.cpu / SIZES[0] * 1e6),
        Figure("tick_cpu_1000000_posts", old.cpu, "CPU-s", young.cpu),
    ]


def _share_figures(shares: dict[int, dict[str, float]]) -> list[Figure]:
    """Together under a twentieth of a core, and at most ten times what a tenth of the channels take."""
    few, many = (sum(shares[count].values()) for count in (SIZES[-1], MANY))
    return [
        Figure("tick_share_of_a_core_100000_channels", many, "percent", MOST_SHARE),
        Figure("tick_share_100000_beside_10000_channels", many / few, "times", MANY / SIZES[-1]),
    ]


def _write_table(
    by_channels: dict[int, Cost], by_history: dict[int, Cost], shares: dict[int, dict[str, float]]
) -> None:
    lines = ["# A tick with nothing new and nothing due", ""]
    for name, costs in (("channels", by_channels), (f"posts of {SIZES[-1]:,} channels", by_history)):
        lines += [f"| {name} | our CPU, ms | PostgreSQL's CPU, ms | statements |", "|---:|---:|---:|---:|"]
        lines += [
            f"| {count:,} | {cost.ours * 1e3:.1f} | {cost.postgres * 1e3:.1f} | {cost.statements} |"
            for count, cost in costs.items()
        ]
        lines.append("")
    lines += [
        "Percent of one core that each look takes at its usual interval, ours and PostgreSQL's together:",
        "",
        "| look | " + " | ".join(f"{count:,} channels" for count in shares) + " |",
        "|---" + "|---:" * len(shares) + "|",
    ]
    for name in shares[MANY]:
        lines.append(f"| {name} | " + " | ".join(f"{found[name]:.2f}" for found in shares.values()) + " |")
    lines.append("| together | " + " | ".join(f"{sum(found.values()):.2f}" for found in shares.values()) + " |\n")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "tick.md").write_text("\n".join(lines), encoding="utf-8")


def run() -> list[Figure]:
    """A tick, a look for work and a look at health: under a second of CPU, and a constant number of statements."""
    return asyncio.run(_measure())
