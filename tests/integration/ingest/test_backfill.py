"""Backfill against a real simulator (SPEC 3.5, 3.6): one at a time, what the ledger calls unknown, until nothing is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage, LedgerState
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.source import Peer, Source
from telegram_assistant.ingest.backfill import Backfill, HoleFiller
from telegram_assistant.ingest.pages import between_albums
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.names import backfill_lock, ingest_alive, low_watermark
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.metrics import sample

pytestmark = pytest.mark.integration

NEWS = 1001
NOW = datetime.now(UTC).replace(microsecond=0)


class OneAccount:
    """The accounts of this test: one source that reads everything, and notes who asked."""

    def __init__(self, account: TelegramAccount) -> None:
        self.account = account
        self.asked: list[Priority] = []
        self.on_ask: Any = None

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:
        self.asked.append(priority)
        if self.on_ask is not None:
            await self.on_ask()
        return self.account.channel(Peer(channel.id, 11))


@dataclass
class Desk:
    """A channel with holes, and the job that fills them."""

    world: World
    news: SimChannel
    sim: Simulator
    database: AsyncEngine
    redis: Redis
    channels: Channels
    accounts: OneAccount
    backfill: Backfill

    async def known(self, coverage: Coverage, *, requested_from: int = 1) -> None:
        """What the ledger says; the posts that it speaks of are never asked for here."""
        statement = text(
            "UPDATE channels SET requested_from = :first, newest_id = 400, cursor_id = 400,"
            " coverage = CAST(CAST(:coverage AS text) AS int8multirange), captured = 0"
        )
        async with self.database.begin() as connection:
            await connection.execute(statement, {"first": requested_from, "coverage": str(coverage)})

    async def ledger(self) -> LedgerState:
        return await self.channels.ledger(NEWS)

    async def stored(self) -> set[int]:
        async with self.database.connect() as connection:
            return {row.message_id for row in await connection.execute(text("SELECT message_id FROM posts"))}

    def requests(self, method: str) -> int:
        return sum(call.method == method for call in self.sim.rpc_log)


@pytest.fixture
async def desk(database: AsyncEngine, redis: Redis) -> AsyncIterator[Desk]:
    world = World()
    world.add_user(User(id=5001, access_hash=77, first_name="Reader", phone="79990000001"))
    news = world.add_channel(SimChannel(NEWS, 11, "News", "the_news", NOW - timedelta(days=90)))
    for number in range(1, 401):
        world.post(news, Message(number, NOW - timedelta(hours=401 - number), f"post {number}"))
    world.delete(news, range(50, 400, 10))
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, username) VALUES (1001, 'News', 'the_news')"))
    async with Simulator(world) as sim:
        client = open_client(api_id=1, api_hash="x", session=sim.session(), rsa_key_pem=sim.public_key_pem)
        async with TelegramAccount(client, "a") as source:
            saver = Saver(database, clock=lambda: datetime.now(UTC), decide_media=lambda _: MediaDecision("pending"))
            channels, accounts = Channels(database), OneAccount(source)
            filler = HoleFiller(channels, saver, clock=lambda: datetime.now(UTC))
            backfill = Backfill(channels, filler, accounts, redis, owner="one")
            yield Desk(world, news, sim, database, redis, channels, accounts, backfill)
    assert sim.unhandled == []


def jobs(status: str) -> float:
    return sample("backfill_jobs_total", channel_id=str(NEWS), status=status)


async def test_spec_3_6_what_the_ledger_calls_unknown_is_read_and_counted(desk: Desk) -> None:
    await desk.known(Coverage.of_spans((100, 120), (300, 401)))
    before = {status: jobs(status) for status in ("enqueued", "completed", "failed")}
    assert await desk.backfill.step() == 1
    ledger = await desk.ledger()
    assert (ledger.unknown, ledger.proven_up_to) == (0, 400)
    assert {number for number in desk.news.messages if number < 300 and not 100 <= number < 120} <= await desk.stored()
    counted = {status: jobs(status) - count for status, count in before.items()}
    assert counted == {"enqueued": 1, "completed": 1, "failed": 0}
    assert desk.accounts.asked == [Priority.BACKFILL], "behind the visits"
    assert await desk.backfill.step() == 0, "there is nothing left to do"


async def test_spec_3_6_the_lock_is_ours_for_an_hour_and_given_back(desk: Desk) -> None:
    await desk.known(Coverage.of_spans((10, 401)))
    seen: list[tuple[Any, int]] = []

    async def look() -> None:
        seen.append((await desk.redis.get(backfill_lock(NEWS)), await desk.redis.ttl("lock:backfill:1001")))

    desk.accounts.on_ask = look
    await desk.backfill.step()
    ((owner, ttl),) = seen
    assert owner == "one"
    assert 3590 <= ttl <= 3600
    assert await desk.redis.get(backfill_lock(NEWS)) is None


async def test_spec_3_6_while_another_process_backfills_we_do_not(desk: Desk) -> None:
    await desk.known(Coverage.of_spans((10, 401)))
    await desk.redis.set(backfill_lock(NEWS), "two")
    await desk.redis.set(ingest_alive("two"), "1")
    assert await desk.backfill.step() == 0
    assert desk.accounts.asked == []
    assert (await desk.ledger()).unknown == 9
    assert await desk.redis.get(backfill_lock(NEWS)) == "two"


async def test_spec_3_5_a_backfill_moves_the_low_watermark(desk: Desk) -> None:
    await desk.known(Coverage.of_spans((100, 401)), requested_from=90)
    await desk.backfill.step()
    kept = await desk.redis.get(low_watermark(NEWS))
    assert datetime.fromisoformat(str(kept)) == desk.news.messages[91].date, "90 was deleted"
    assert 86390 <= await desk.redis.ttl("low_watermark:1001") <= 86400
    asked = NOW - timedelta(days=60)
    await desk.channels.ask_history(NEWS, asked)
    await desk.backfill.step()
    assert datetime.fromisoformat(str(await desk.redis.get(low_watermark(NEWS)))) == asked
    assert (await desk.ledger()).requested_from == 1


async def test_many_small_holes_cost_a_request_together(desk: Desk) -> None:
    holes = Coverage.of_ids(range(3, 400, 4))
    await desk.known(Coverage.of_spans((1, 401)).subtract(holes))
    assert await desk.backfill.step() == 1
    assert (await desk.ledger()).unknown == 0
    assert await desk.stored() == {number for number in desk.news.messages if number in holes}
    assert (desk.requests("channels.getMessages"), desk.requests("messages.getHistory")) == (1, 0)


async def test_what_a_page_leaves_out_is_a_hole_until_its_ids_were_asked_for(desk: Desk) -> None:
    await desk.known(Coverage())
    desk.sim.faults.add(Fault("lose_middle", "messages.getHistory", times=2))
    assert await desk.backfill.step() == 1
    assert await desk.stored() == set(desk.news.messages)
    assert (await desk.ledger()).unknown == 0
    assert desk.requests("channels.getMessages") >= 1


async def test_a_hole_that_stays_is_not_called_filled(desk: Desk) -> None:
    await desk.known(Coverage.of_spans((10, 401)))
    failed = jobs("failed")
    desk.sim.faults.add(Fault("error", "channels.getMessages", code=400, message="CHANNEL_PRIVATE"))
    assert await desk.backfill.step() == 0
    assert jobs("failed") == failed + 1
    assert (await desk.ledger()).unknown == 9
    desk.sim.faults.clear()
    assert await desk.backfill.step() == 0, "a channel that failed waits a little"


async def test_a_channel_that_is_removed_meanwhile_is_not_read_on(desk: Desk) -> None:
    await desk.known(Coverage.of_spans((300, 401)))

    async def remove() -> None:
        await desk.channels.set_status(NEWS, "removed")

    desk.accounts.on_ask = remove
    assert await desk.backfill.step() == 0
    assert await desk.stored() == set()


@pytest.mark.parametrize("apart", [1, 50])
async def test_history_begins_before_an_album_however_far_apart_its_ids_are(desk: Desk, apart: int) -> None:
    far = desk.world.add_channel(SimChannel(2003, 11, "Far", "the_far", NOW - timedelta(days=90)))
    for number in range(1, 25):
        group = 7 if 11 <= number <= 18 else None
        at = NOW - timedelta(hours=30 if group else 41 - number)
        desk.world.post(far, Message(1000 + number * apart, at, f"post {number}", grouped_id=group))
    source = desk.accounts.account.channel(Peer(2003, 11))
    for number in range(11, 18):
        assert await between_albums(source, 1000 + number * apart) == 1000 + 11 * apart - 1
    for number in (10, 18):
        assert await between_albums(source, 1000 + number * apart) == 1000 + number * apart


async def test_n10_a_big_backfill_keeps_no_small_one_waiting(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By turns: a slice of the big one, then the small ones; and the big one comes to its end all the same."""
    monkeypatch.setattr("telegram_assistant.ingest.backfill.SLICE_PAGES", 1)
    monkeypatch.setattr("telegram_assistant.ingest.backfill.AT_ONCE", 1)
    small = desk.world.add_channel(SimChannel(2002, 11, "Small", "the_small", NOW - timedelta(days=90)))
    for number in range(1, 4):
        desk.world.post(small, Message(number, NOW - timedelta(hours=4 - number), f"post {number}"))
    async with desk.database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, username) VALUES (2002, 'Small', 'the_small')"))
    await desk.known(Coverage())
    desk.sim.faults.add(Fault("slow", "messages.getHistory", seconds=0.5))  # pages that come quickly are one
    async with desk.database.begin() as connection:
        await connection.execute(text("UPDATE channels SET newest_id = 3, cursor_id = 3 WHERE id = 2002"))
        await connection.execute(text("UPDATE channels SET priority = 9 WHERE id = 1001"))
    assert await desk.backfill.step() == 1, "the small one is closed in the first turn"
    assert (await desk.channels.ledger(2002)).unknown == 0
    assert (await desk.ledger()).unknown > 0
    before = jobs("enqueued")
    turns = 0
    while (await desk.ledger()).unknown:
        await desk.backfill.step()
        turns += 1
    assert 1 <= turns <= 10
    assert jobs("enqueued") == before, "one backfill, however many turns it takes"
    assert set(desk.news.messages) <= await desk.stored()
