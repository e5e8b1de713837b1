"""A stage that is slow: nothing is lost, and capture slows before memory grows (SPEC 4.11, LESSONS 14)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.consumer import Consumer, ConsumerTimes
from telegram_assistant.bus.observer import MEGABYTE, Observer, Pressure
from telegram_assistant.bus.stage import Done, Outcome, Stage
from telegram_assistant.bus.streams import Publisher, make_group
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.events import PostParsed
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.domain.source import Peer, Source
from telegram_assistant.errors import Retry
from telegram_assistant.ingest.backfill import Backfill, HoleFiller
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.names import POSTS_PARSED, TAGGING, stream
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

NEWS = 1001
POSTS = 6_000  # of about 3 KB: many times the megabyte that may wait
NOW = datetime.now(UTC).replace(microsecond=0)
GROUPS = ((POSTS_PARSED, TAGGING),)


@dataclass(frozen=True)
class OneAccount:
    """One source that reads everything."""

    source: TelegramAccount

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:
        assert priority is Priority.BACKFILL
        return self.source.channel(Peer(channel.id, 11))


@dataclass(frozen=True)
class Desk:
    """A channel with a long history that is being read, and everything up to the streams."""

    database: AsyncEngine
    redis: Redis
    saver: Saver
    pressure: Pressure
    supervisor: Supervisor

    async def count(self, table: str) -> int:
        async with self.database.connect() as connection:
            return int(await connection.scalar(text(f"SELECT count(*) FROM {table}")) or 0)  # noqa: S608 - ours

    async def save_a_new_one(self) -> None:
        """As a live update does it."""
        newest = POSTS + 1
        post = Post(channel_id=NEWS, message_id=newest, posted_at=NOW, text="The newest")
        proven = Coverage.of_spans((newest, newest + 1))
        await self.saver.save(Reading(channel_id=NEWS, posts=[post], proven=proven, newest_id=newest, cursor_id=newest))

    async def waiting(self) -> int:
        return int(await self.redis.memory_usage(stream(POSTS_PARSED)) or 0)

    async def standstill(self) -> int:
        """Wait until nothing more is saved; how many posts are."""
        before = -1
        while (saved := await self.count("posts")) != before:
            before = saved
            await asyncio.sleep(1.0)
        return saved


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(300):
        while not await condition():  # noqa: ASYNC110 - it happens in Valkey, which tells nobody
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_long_history(database: AsyncEngine) -> AsyncIterator[TelegramAccount]:
    world = World()
    world.add_user(User(id=5001, access_hash=77, first_name="Reader", phone="79990000001"))
    news = world.add_channel(SimChannel(NEWS, 11, "News", "the_news", NOW - timedelta(days=900)))
    for number in range(1, POSTS + 1):
        world.post(news, Message(number, NOW - timedelta(hours=POSTS + 1 - number), f"Новость {number}. " * 100))
    async with database.begin() as connection:
        statement = text(
            "INSERT INTO channels (id, title, username, requested_from, newest_id, cursor_id)"
            " VALUES (:id, 'News', 'the_news', 1, :newest, :newest)"
        )
        await connection.execute(statement, {"id": NEWS, "newest": POSTS})
    async with Simulator(world) as sim:
        client = open_client(api_id=1, api_hash="x", session=sim.session(), rsa_key_pem=sim.public_key_pem)
        async with TelegramAccount(client, "a") as source:
            yield source


@pytest.fixture
async def desk(database: AsyncEngine, redis: Redis) -> AsyncIterator[Desk]:
    async with a_long_history(database) as source:
        saver = Saver(database, clock=lambda: datetime.now(UTC), decide_media=lambda _: MediaDecision("pending"))
        channels, pressure = Channels(database), Pressure(redis, GROUPS, most_mb=1)
        filler = HoleFiller(channels, saver, clock=lambda: datetime.now(UTC))
        backfill = Backfill(channels, filler, OneAccount(source), redis, owner="one", pressure=pressure)
        supervisor = Supervisor(first_delay=0.01)
        await make_group(redis, POSTS_PARSED, TAGGING)
        await supervisor.start("relay", Relay(database, Publisher(redis), saver.committed, pressure).run)
        await supervisor.start("backfill", backfill.run)
        try:
            yield Desk(database, redis, saver, pressure, supervisor)
        finally:
            await supervisor.stop()


async def no_letters() -> dict[str, int]:
    return {}


async def test_a_slow_stage_slows_capture_and_nothing_is_lost(desk: Desk) -> None:
    seen: Counter[UUID] = Counter()
    most_waiting, may_work = 0, asyncio.Event()

    async def tag(events: Sequence[PostParsed]) -> list[Outcome]:
        nonlocal most_waiting
        await may_work.wait()
        most_waiting = max(most_waiting, await desk.waiting())
        seen.update(event.post_id for event in events)
        return [Done() for _ in events]

    stage = Stage(name=TAGGING, handlers={POSTS_PARSED: tag})
    await desk.supervisor.start(
        "tagging", Consumer(desk.redis, stage, name="one", times=ConsumerTimes(block_ms=50)).run
    )
    await until(desk.pressure.full)
    saved = await desk.standstill()
    assert saved < POSTS / 2  # the history is not read on,
    await desk.save_a_new_one()
    assert (await desk.count("posts"), await desk.count("outbox") > 0) == (saved + 1, True)  # new posts wait on disk,
    assert await desk.waiting() < 8 * MEGABYTE  # and what waits in memory is the limit and a step of the relay
    may_work.set()
    await desk.supervisor.start("observer", Observer(desk.redis, GROUPS, (), no_letters).run)  # it trims

    async def all_seen() -> bool:
        return len(seen) == POSTS + 1

    await until(all_seen)
    assert set(seen.values()) == {1}
    assert (await desk.count("posts"), await desk.count("outbox")) == (POSTS + 1, 0)
    assert most_waiting < 8 * MEGABYTE


async def test_what_a_stage_puts_off_counts_too(desk: Desk) -> None:
    """A model that is away: every event is put off, acknowledged, and kept in Redis, which must not fill it up."""
    put_off = 0

    async def tag(events: Sequence[PostParsed]) -> list[Outcome]:
        nonlocal put_off
        put_off += len(events)
        raise Retry("the model is away", after=3600)

    stage = Stage(name=TAGGING, handlers={POSTS_PARSED: tag})
    await desk.supervisor.start(
        "tagging", Consumer(desk.redis, stage, name="one", times=ConsumerTimes(block_ms=50)).run
    )
    await desk.supervisor.start("observer", Observer(desk.redis, GROUPS, (), no_letters).run)
    await until(desk.pressure.full)
    assert await desk.standstill() < POSTS / 2
    assert 0 < put_off < POSTS / 2
    assert await desk.pressure.full()
