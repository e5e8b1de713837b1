"""The audit against a real simulator: what was lost, changed or deleted behind our back is found and repaired."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.source import Peer, ReadElsewhere, Source
from telegram_assistant.ingest.audit import Auditor, Finding
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration


class OneAccount:
    """The accounts of this test: one source that reads everything."""

    def __init__(self, source: TelegramAccount) -> None:
        self._source = source

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        return self._source.channel(Peer(channel.id, 11))


@dataclass
class Desk:
    """A channel of which every post is stored, and what audits it."""

    world: World
    sim: Simulator
    channel: SimChannel
    source: TelegramAccount
    channels: Channels
    audits: Audits
    saver: Saver

    def auditor(self) -> Auditor:
        accounts = OneAccount(self.source)
        return Auditor(self.channels, self.audits, self.saver, accounts, every_seconds=3600, clock=moment)

    async def row(self) -> Channel:
        found = await self.channels.get(1001)
        assert found is not None
        return found

    async def capture(self, ids: Iterable[int]) -> None:
        for number in ids:
            self.world.post(self.channel, Message(id=number, date=moment() - timedelta(hours=2), text=f"post {number}"))
        newest = self.channel.newest_id
        reached = 0
        while reached < newest:
            page = await self.source.channel(Peer(1001, 11)).page_after(reached)
            last = page.posts[-1].message_id
            proven = Coverage.of_spans((reached + 1, last + 1))
            await self.saver.save(Reading(channel_id=1001, posts=page.posts, proven=proven, newest_id=last))
            reached = last

    def requests(self) -> int:
        return sum(call.method == "channels.getMessages" for call in self.sim.rpc_log)


def moment() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def desk(database: AsyncEngine) -> AsyncIterator[Desk]:
    world = World()
    world.add_user(User(id=5001, access_hash=77, first_name="Reader", phone="79990000001"))
    channel = world.add_channel(SimChannel(1001, 11, "News", "the_news", moment() - timedelta(days=30), members={5001}))
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, requested_from) VALUES (1001, 'News', 1)"))
    async with Simulator(world) as sim:
        client = open_client(api_id=1, api_hash="x", session=sim.session(), rsa_key_pem=sim.public_key_pem)
        async with TelegramAccount(client, "a") as source:
            saver = Saver(database, clock=moment, decide_media=lambda _: MediaDecision("pending"))
            yield Desk(world, sim, channel, source, Channels(database), Audits(database), saver)


async def test_disagreements_are_repaired_and_counted(desk: Desk, database: AsyncEngine) -> None:
    await desk.capture(range(1, 41))
    auditor, row = desk.auditor(), await desk.row()
    assert await auditor.audit(row) == Finding(40)
    desk.world.edit(desk.channel, 7, "changed")
    desk.world.delete(desk.channel, [8, 9])
    async with database.begin() as connection:  # somebody lost a row that the ledger speaks for
        await connection.execute(text("DELETE FROM posts WHERE message_id = 3"))
        await connection.execute(text("UPDATE channels SET captured = captured - 1"))
    assert await auditor.audit(row) == Finding(40, missing=1, edited=1, deleted=2)
    assert await auditor.audit(row) == Finding(40)
    async with database.connect() as connection:
        kept = await connection.execute(text("SELECT text FROM posts WHERE message_id IN (3, 7) ORDER BY message_id"))
        assert [found.text for found in kept] == ["post 3", "changed"]


async def test_n25_a_sample_is_drawn_from_stored_posts_where_most_ids_are_empty(desk: Desk) -> None:
    await desk.capture(range(10_531, 10_531 + 60 * 25, 25))
    desk.world.edit(desk.channel, 10_531 + 25, "changed")
    found = [await desk.auditor().audit(await desk.row()) for _ in range(6)]
    assert sum(finding.edited for finding in found) == 1
    assert min(finding.audited for finding in found) > 40
    assert desk.requests() == 6


async def test_n25_a_full_audit_takes_turns_and_goes_on_in_another_process(desk: Desk) -> None:
    await desk.capture(range(50, 50 + 7 * 900, 7))
    newest, oldest = desk.channel.newest_id, 50
    desk.world.edit(desk.channel, oldest, "the oldest was edited")
    desk.world.delete(desk.channel, [newest])
    await desk.audits.want(1001, "away", moment())
    assert await desk.auditor().step()
    half = await desk.audits.get(1001)
    assert half is not None
    assert (half.done, half.total, half.found, half.audited_at) == (500, 900, 1, None)
    assert (await desk.audits.waiting()).posts == 400
    report = await desk.auditor().report()
    assert (report["channels_waiting"], report["posts_waiting"]) == (1, 400)

    assert await desk.auditor().step()  # of another process: it goes on where that one was
    done = await desk.audits.get(1001)
    assert done is not None
    assert (done.done, done.found, done.wanted_at) == (899 + 1, 2, None)
    assert done.audited_at is not None
    assert desk.requests() == 9
    assert not await desk.auditor().step()


async def test_n25_what_is_asked_for_during_a_full_audit_is_done_after_it(desk: Desk) -> None:
    await desk.capture(range(1, 601))
    await desk.audits.want(1001, "too_long", moment())
    assert await desk.auditor().step()
    await desk.audits.want(1001, "too_long", moment())
    assert await desk.auditor().step()
    again = await desk.audits.get(1001)
    assert again is not None
    assert again.audited_at is not None
    assert again.wanted_at is not None


class ChangingHands(OneAccount):
    """The account that reads the channel belongs to no process for a moment."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - the same for all
        raise ReadElsewhere(f"{channel.shown}: the accounts are just being shared out")


async def test_n25_an_account_that_changes_hands_delays_an_audit_for_seconds(desk: Desk, database: AsyncEngine) -> None:
    await desk.capture(range(1, 11))
    await desk.audits.want(1001, "away", moment())
    shared = ChangingHands(desk.source)
    assert await Auditor(desk.channels, desk.audits, desk.saver, shared, every_seconds=3600, clock=moment).step()
    async with database.connect() as connection:
        next_at = (await connection.execute(text("SELECT next_at FROM channel_audits"))).scalar_one()
    assert next_at - moment() < timedelta(minutes=1)
