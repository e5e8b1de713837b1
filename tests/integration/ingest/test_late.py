"""What the ledger proved empty and yet shows later, and what a page leaves out: stored once, counted, never deleted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Post
from telegram_assistant.domain.source import Peer, Source
from telegram_assistant.domain.visits import WINDOWS, Mode
from telegram_assistant.ingest.audit import Auditor
from telegram_assistant.ingest.parser import ChannelParser, Parsed
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.rhythms import Intervals
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.metrics import sample

pytestmark = pytest.mark.integration

NEWS = 1001


def late_posts() -> float:
    return sample("ledger_late_posts_total")


class OneAccount:
    """One source that reads everything."""

    def __init__(self, source: TelegramAccount) -> None:
        self._source = source

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        return self._source.channel(Peer(channel.id, 11))


@dataclass
class Desk:
    """A small channel, and who reads it."""

    world: World
    news: SimChannel
    sim: Simulator
    source: TelegramAccount
    channels: Channels
    saver: Saver
    parser: ChannelParser
    database: AsyncEngine

    async def row(self) -> Channel:
        row = await self.channels.get(NEWS)
        assert row is not None
        return row

    async def visit(self, mode: Mode = Mode.INCREMENTAL) -> Parsed:
        async def nothing() -> None:
            pass

        return await self.parser.parse(await self.row(), self.source.channel(Peer(NEWS, 11)), mode, before_page=nothing)

    async def nothing_due(self) -> None:
        """No window of older posts waits to be read again."""
        marks = {window.name: datetime.now(UTC).isoformat() for window in WINDOWS}
        async with self.database.begin() as connection:
            await connection.execute(text("UPDATE channels SET refreshed = :marks"), {"marks": json.dumps(marks)})

    async def states(self) -> dict[int, bool]:
        """Which posts are stored, and whether they are there still."""
        statement = text("SELECT message_id, deleted_at IS NULL AS there FROM posts")
        async with self.database.connect() as connection:
            return {row.message_id: row.there for row in await connection.execute(statement)}


@pytest.fixture
async def desk(database: AsyncEngine, redis: Redis) -> AsyncIterator[Desk]:
    # Now, not when the file was loaded: in a long run that is an hour ago, and the first posts have left the last day.
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    world = World()
    world.add_user(User(id=5001, access_hash=77, first_name="Reader", phone="79990000001"))
    news = world.add_channel(SimChannel(NEWS, 11, "News", "the_news", start))
    for number in range(1, 31):
        # 7, 8 and 20 show in a year; until then their places are empty.
        shows = datetime.now(UTC) + timedelta(days=365) if number in {7, 8, 20} else None
        made = Message(number, start + timedelta(minutes=10 * number), f"post {number}")
        world.post(news, made, visible_at=shows)
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, requested_from) VALUES (1001, 'News', 1)"))
    async with Simulator(world) as sim:
        client = open_client(api_id=1, api_hash="x", session=sim.session(), rsa_key_pem=sim.public_key_pem)
        async with TelegramAccount(client, "a") as source:
            channels = Channels(database)
            saver = Saver(database, clock=lambda: datetime.now(UTC), decide_media=lambda _: MediaDecision("pending"))
            stats = Statistics(redis, Intervals(database), window=timedelta(days=14), clock=lambda: datetime.now(UTC))
            parser = ChannelParser(channels, saver, redis, stats, clock=lambda: datetime.now(UTC))
            page = await source.channel(Peer(NEWS, 11)).page_after(0)
            await saver.save(
                Reading(
                    channel_id=NEWS, posts=page.posts, proven=Coverage.of_spans((1, 31)), newest_id=30, cursor_id=30
                )
            )
            yield Desk(world, news, sim, source, channels, saver, parser, database)
    assert sim.unhandled == []


async def test_a_late_post_in_a_proven_range_is_stored_and_counted(desk: Desk) -> None:
    before = late_posts()
    ledger = await desk.channels.ledger(NEWS)
    assert (ledger.captured, ledger.empty, ledger.unknown) == (27, 3, 0)
    desk.world.reveal(datetime.now(UTC) + timedelta(days=400))
    assert (await desk.visit()).new == 3
    assert late_posts() == before + 3
    ledger = await desk.channels.ledger(NEWS)
    assert (ledger.captured, ledger.empty, ledger.unknown) == (30, 0, 0)
    assert (await desk.visit()).new == 0
    assert late_posts() == before + 3, "once"


async def test_spec_1_1_and_1_2_a_historical_visit_reads_the_last_day_an_incremental_one_the_end(desk: Desk) -> None:
    await desk.visit()  # which clears its high-water mark
    await desk.nothing_due()
    changed = (2, 15, 29)  # 24, 21 and 19 hours old
    for number in changed:
        desk.world.edit(desk.news, number, f"changed {number}")
    assert (await desk.visit(Mode.INCREMENTAL)).edited == 0
    assert (await desk.visit(Mode.HISTORICAL)).edited == len(changed)
    ledger = await desk.channels.ledger(NEWS)
    assert (ledger.captured, ledger.unknown) == (27, 0)


async def test_a_new_post_at_the_end_is_not_late(desk: Desk) -> None:
    before = late_posts()
    desk.world.post(desk.news, Message(31, datetime.now(UTC), "news"))
    assert (await desk.visit()).new == 1
    assert late_posts() == before


async def test_spec_3_5_the_high_watermark_is_the_newest_date_whatever_comes_late(desk: Desk) -> None:
    desk.world.reveal(datetime.now(UTC) + timedelta(days=400))
    await desk.visit()
    async with desk.database.connect() as connection:
        newest = (await connection.execute(text("SELECT max(posted_at) FROM posts"))).scalar_one()
    assert (await desk.row()).last_post_at == newest == desk.news.messages[30].date


async def test_an_audit_goes_through_the_empty_ids_first(desk: Desk) -> None:
    before = late_posts()
    auditor = Auditor(
        desk.channels,
        Audits(desk.database),
        desk.saver,
        OneAccount(desk.source),
        every_seconds=3600,
        clock=lambda: datetime.now(UTC),
        rng=Random(3),
    )
    assert (await auditor.audit(await desk.row())).disagreements == 0
    desk.world.reveal(datetime.now(UTC) + timedelta(days=400))
    assert (await auditor.audit(await desk.row())).missing == 3
    assert late_posts() == before + 3
    assert (await auditor.audit(await desk.row())).disagreements == 0


@pytest.mark.parametrize("action", ["lose_oldest", "lose_middle", "lose_newest"])
async def test_what_a_page_leaves_out_is_asked_for_before_it_is_called_deleted(action: str, desk: Desk) -> None:
    desk.world.delete(desk.news, [15])
    fault = Fault(action, "messages.getHistory", times=1)
    desk.sim.faults.add(fault)
    parsed = await desk.visit()
    assert desk.sim.faults.count(fault) == 1
    assert parsed.deleted == 1
    assert {number for number, there in (await desk.states()).items() if not there} == {15}


async def test_a_page_never_deletes_by_itself(desk: Desk) -> None:
    """It says what is absent; who read it asks again."""
    posts = [Post(channel_id=NEWS, message_id=1, posted_at=datetime.now(UTC))]
    span = Coverage.of_spans((1, 4))
    reading = Reading(channel_id=NEWS, posts=posts, proven=Coverage.of_ids([1]), looked_at=span)
    saved = await desk.saver.save(reading)
    assert (saved.deleted, saved.absent) == ([], [2, 3])
    assert all((await desk.states()).values())
