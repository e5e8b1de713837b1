"""A world where posts show late and pages leave some out, captured over MTProto by the product's own parts.

Days pass in a minute: the world, its Telegram and capture share one clock, which goes from tick to tick.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

from sqlalchemy import text

from bench.engines import Engines, started_engines
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.media_rules import MediaRules, decide
from telegram_assistant.domain.source import Peer, Source
from telegram_assistant.ingest.audit import Auditor
from telegram_assistant.ingest.backfill import Backfill, HoleFiller
from telegram_assistant.ingest.parser import ChannelParser
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.ingest.silence import SilenceWatch
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.ingest.visits import Visitor, VisitRules
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.rhythms import Intervals
from telegram_simulator.clock import Clock
from telegram_simulator.faults import Fault
from telegram_simulator.generate import build_world
from telegram_simulator.life import Life
from telegram_simulator.model import Change
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.server import Simulator
from telegram_simulator.veil import Veil
from telegram_simulator.world import World

START = datetime(2026, 1, 14, 6, tzinfo=UTC)  # a Wednesday: a weekend is in every run
TICK = timedelta(minutes=15)
CALM_TICK = timedelta(hours=1)  # when nothing new comes any more
AUDITS = timedelta(hours=6)
AT_ONCE = timedelta(minutes=1)
LOSING = 0.03  # of the pages, for each way to lose
OUTCOMES = ("silent", "news", "hole")


class OneAccount:
    """All channels are read by one account, whose access hashes the world knows."""

    def __init__(self, source: TelegramAccount, world: World) -> None:
        self._source = source
        self._world = world

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        return self._source.channel(Peer(channel.id, self._world.channels[channel.id].access_hash))


@dataclass
class Report:
    """What came of it."""

    posts: int = 0
    late: dict[tuple[int, int], tuple[timedelta, datetime]] = field(default_factory=dict)  # how late, and shown when
    delays: list[tuple[timedelta, timedelta]] = field(default_factory=list)  # how late it showed, how long it waited
    pages_spoiled: int = 0
    requests: int = 0
    visits: int = 0
    looks: dict[str, float] = field(default_factory=dict)  # at silence, by outcome
    found_late: float = 0.0  # posts, by the metric
    unknown: int = 0
    differences: int = 0  # posts that are not as they should be, at the end


class Newsdesk:
    """Capture as the ingest role wires it, without its tasks: each is called when its time has come."""

    def __init__(self, engines: Engines, source: TelegramAccount, world: World) -> None:
        clock = world.now
        self.channels = Channels(engines.database)
        saver = Saver(engines.database, clock=clock, decide_media=partial(decide, rules=MediaRules()))
        intervals = Intervals(engines.database)
        statistics = Statistics(engines.redis, intervals, window=timedelta(days=14), clock=clock)
        accounts = OneAccount(source, world)
        parser = ChannelParser(self.channels, saver, engines.redis, statistics, clock=clock)
        rules = VisitRules(retry_max=1)
        self._visitor = Visitor(self.channels, parser, accounts, owner="bench", rules=rules, clock=clock)
        self._silence = SilenceWatch(self.channels, statistics, engines.redis, owner="bench", clock=clock)
        filler = HoleFiller(self.channels, saver, clock=clock)
        self._backfill = Backfill(self.channels, filler, accounts, engines.redis, owner="bench")
        audits = Audits(engines.database)
        self._auditor = Auditor(self.channels, audits, saver, accounts, every_seconds=1, clock=clock, rng=Random(1))  # noqa: S311 - a sample
        self._clock = clock
        self._audited = clock()

    async def tick(self) -> int:
        """Make all due, look for silence, visit, fill holes, and audit now and then; how many visits."""
        now = self._clock()
        await self.channels.plan(now)
        await self._silence.check()
        leased = await self.channels.lease("bench", limit=1000, now=now, ttl=timedelta(hours=1))
        for channel in leased:
            await self._visitor.visit(channel)
        await self._backfill.step()
        if now - self._audited >= AUDITS:
            self._audited = now
            for channel in await self.channels.all():
                await self._auditor.audit(channel)
        return len(leased)


@asynccontextmanager
async def _served(world: World) -> AsyncIterator[tuple[Engines, Simulator, TelegramAccount]]:
    async with AsyncExitStack() as stack:
        engines = await stack.enter_async_context(started_engines())
        simulator = await stack.enter_async_context(Simulator(world))
        client = open_client(
            api_id=1, api_hash="bench", session=simulator.session(), rsa_key_pem=simulator.public_key_pem
        )
        source = await stack.enter_async_context(TelegramAccount(client, "bench"))
        async with engines.database.begin() as connection:
            for channel in _watched(world):
                await connection.execute(
                    text("INSERT INTO channels (id, title, username, next_visit_at) VALUES (:id, :title, :name, :now)"),
                    {"id": channel.id, "title": channel.title, "name": channel.username, "now": START},
                )
        yield engines, simulator, source


async def live_through(
    *, channels: int, posts_a_day: float, lived: timedelta, calm: timedelta, veil: Veil | None, losing: bool
) -> Report:
    """Let a world live under a veil and with pages that lose messages, then go on in peace until all has shown."""
    world = build_world(
        seed=11,
        channels=channels,
        posts=int(posts_a_day * 3),
        now=START,
        days=3,
        private_share=0,
        clock=Clock(START, speed=0),
    )
    for channel in world.channels.values():
        channel.members.clear()  # no account is told of anything: what is not read again is not found
    report = Report()
    life = Life(world, seed=11, veil=veil)
    world.listen(partial(_note_late, world, report))
    before = _counted()
    async with _served(world) as (engines, simulator, source):
        desk = Newsdesk(engines, source, world)
        if losing:
            ways = ("lose_oldest", "lose_middle", "lose_newest")
            simulator.faults.add(*(Fault(way, "messages.getHistory", probability=LOSING) for way in ways))
        while world.now() < START + lived:
            life.step(world.now() + TICK)
            report.visits += await desk.tick()
        report.pages_spoiled = sum(simulator.faults.fired.values())
        simulator.faults.clear()
        clock = life.clock
        while clock() < START + lived + calm:
            clock.advance_to(clock() + CALM_TICK)
            world.reveal()
            report.visits += await desk.tick()
        report.requests = len(simulator.rpc_log)
        await _compare(report, world, engines, desk)
    after = _counted()
    report.looks = {outcome: after[outcome] - before[outcome] for outcome in OUTCOMES}
    report.found_late = after["late"] - before["late"]
    return report


def _watched(world: World) -> list[SimChannel]:
    return [channel for channel in world.channels.values() if not channel.group]


def _counted() -> dict[str, float]:
    looks = {
        outcome: REGISTRY.get_sample_value("silence_looks_total", {"outcome": outcome}) or 0.0 for outcome in OUTCOMES
    }
    return {**looks, "late": REGISTRY.get_sample_value("ledger_late_posts_total") or 0.0}


def _note_late(world: World, report: Report, channel: SimChannel, change: Change) -> None:
    if change.kind != "new" or channel.group:
        return
    report.posts += 1
    now = world.now()
    lateness = now - channel.messages[change.ids[0]].date
    if lateness > AT_ONCE:
        report.late[channel.id, change.ids[0]] = (lateness, now)


async def _compare(report: Report, world: World, engines: Engines, desk: Newsdesk) -> None:
    """The store beside the truth, and how long what showed late waited."""
    async with engines.database.connect() as connection:
        for channel in _watched(world):
            statement = text("SELECT message_id, text, captured_at, deleted_at FROM posts WHERE channel_id = :id")
            rows = {row.message_id: row for row in await connection.execute(statement, {"id": channel.id})}
            ledger = await desk.channels.ledger(channel.id)
            report.unknown += ledger.unknown
            asked = {i: message.text for i, message in channel.messages.items() if i >= ledger.requested_from}
            there = {i: row.text for i, row in rows.items() if row.deleted_at is None}
            report.differences += len(asked.items() ^ there.items())
            for (channel_id, message_id), (lateness, shown_at) in report.late.items():
                if channel_id == channel.id and message_id in rows:
                    report.delays.append((lateness, rows[message_id].captured_at - shown_at))
