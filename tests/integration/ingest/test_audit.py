"""The audit against a real simulator: what was lost, changed or deleted behind our back is found and repaired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.pacing import Priority
from telegram_assistant.ingest.audit import Auditor, Finding
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.ingest.source import Peer, Source
from telegram_assistant.source.telegram import TelegramSource
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration


class OneAccount:
    """The accounts of this test: one source that reads everything."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> tuple[Source, Peer]:  # noqa: ARG002 - one fits all
        return self._source, Peer(channel.id, 11)


async def test_disagreements_are_repaired_and_counted(database: AsyncEngine) -> None:
    now = datetime.now(UTC)
    world = World()
    world.add_user(User(id=5001, access_hash=77, first_name="Reader", phone="79990000001"))
    channel = world.add_channel(SimChannel(1001, 11, "News", "the_news", now - timedelta(days=30), members={5001}))
    for number in range(1, 41):
        world.post(channel, Message(id=number, date=now - timedelta(hours=2), text=f"post {number}"))
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, requested_from) VALUES (1001, 'News', 1)"))
    async with Simulator(world) as sim:
        client = open_client(api_id=1, api_hash="x", session=sim.session(), rsa_key_pem=sim.public_key_pem)
        async with TelegramSource(client, "a") as source:
            saver = Saver(database, clock=lambda: datetime.now(UTC), decide_media=lambda _: MediaDecision("pending"))
            page = await source.page_after(Peer(1001, 11), 0)
            await saver.save(Reading(channel_id=1001, posts=page.posts, proven=Coverage.of((1, 41)), newest_id=40))
            channels = Channels(database)
            auditor = Auditor(channels, saver, OneAccount(source), every_seconds=3600, clock=lambda: datetime.now(UTC))
            row = await channels.get(1001)
            assert row is not None
            assert await auditor.audit(row) == Finding(40, 0, 0, 0)

            world.edit(channel, 7, "changed")
            world.delete(channel, [8, 9])
            async with database.begin() as connection:  # somebody lost a row that the ledger speaks for
                await connection.execute(text("DELETE FROM posts WHERE message_id = 3"))
                await connection.execute(text("UPDATE channels SET captured = captured - 1"))
            assert await auditor.audit(row) == Finding(40, missing=1, edited=1, deleted=2)
            assert await auditor.audit(row) == Finding(40, 0, 0, 0)
    async with database.connect() as connection:
        kept = await connection.execute(text("SELECT text FROM posts WHERE message_id IN (3, 7) ORDER BY message_id"))
        assert [found.text for found in kept] == ["post 3", "changed"]
