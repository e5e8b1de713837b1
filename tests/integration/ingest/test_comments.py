"""Comments of a discussion group, read through the simulator where a channel has them switched on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.source import Peer, Source
from telegram_assistant.ingest.comments import CommentReader
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.channels import Channel
from telegram_assistant.stores.postgres.comments import Comments
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Counters, Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC).replace(microsecond=0)


def make_world() -> tuple[World, SimChannel, SimChannel]:
    world = World()
    world.add_user(User(id=5001, access_hash=77, first_name="Reader", phone="79990000001"))
    born = NOW - timedelta(days=30)
    channel = world.add_channel(SimChannel(1001, 11, "News", "the_news", born, members={5001}, linked_id=2001))
    group = world.add_channel(SimChannel(2001, 22, "News chat", None, born, group=True, linked_id=1001, members={5001}))
    world.post(channel, Message(id=1, date=NOW - timedelta(hours=2), text="discussed", counters=Counters(replies=3)))
    world.post(channel, Message(id=2, date=NOW - timedelta(hours=1), text="not discussed"))
    for number, words in enumerate(("first", "second", "third"), 1):
        world.post(group, Message(id=number, date=NOW, text=words, comment_to=1, sender_id=5001))
    return world, channel, group


class OneAccount:
    """The accounts of this test: one source that reads everything."""

    def __init__(self, source: TelegramAccount) -> None:
        self._source = source

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        return self._source.channel(Peer(channel.id, channel.access_hash["a"]))


class Setting:
    """A captured channel, and the reader of its comments."""

    def __init__(self, database: AsyncEngine, source: TelegramAccount) -> None:
        self._source = source
        self._saver = Saver(database, clock=lambda: NOW, decide_media=lambda _: MediaDecision("pending"))
        self.store = Comments(database)
        self.reader = CommentReader(self.store, self._saver, OneAccount(source), clock=lambda: NOW)

    async def visit(self) -> None:
        page = await self._source.channel(Peer(1001, 11)).page_after(0)
        await self._saver.save(
            Reading(channel_id=1001, posts=page.posts, proven=Coverage.of_spans((1, 3)), newest_id=2)
        )


@asynccontextmanager
async def captured(database: AsyncEngine, world: World) -> AsyncIterator[Setting]:
    async with database.begin() as connection:
        await connection.execute(
            text(
                "INSERT INTO channels (id, title, username, access_hash, read_comments, requested_from)"
                " VALUES (1001, 'News', 'the_news', '{\"a\": 11}', true, 1)"
            )
        )
    async with Simulator(world) as sim:
        client = open_client(api_id=1, api_hash="x", session=sim.session(), rsa_key_pem=sim.public_key_pem)
        async with TelegramAccount(client, "a") as source:
            setting = Setting(database, source)
            await setting.visit()
            yield setting


async def test_comments_are_read_once_and_belong_to_their_post(database: AsyncEngine) -> None:
    world, channel, group = make_world()
    async with captured(database, world) as setting:
        assert await setting.reader.step() == 3
        assert await setting.reader.step() == 0
        world.post(group, Message(id=4, date=NOW, text="late", comment_to=1, sender_id=5001))
        world.grow(channel, 1, replies=1)
        await setting.visit()
        assert await setting.reader.step() == 1
    async with database.connect() as connection:
        rows = await connection.execute(
            text(
                "SELECT c.text, p.message_id, c.channel_id FROM post_comments m JOIN posts c ON c.id = m.comment_id"
                " JOIN posts p ON p.id = m.post_id ORDER BY c.message_id"
            )
        )
        assert [tuple(row) for row in rows] == [(w, 1, 2001) for w in ("first", "second", "third", "late")]
    assert await comments_seen_by(database, watching=1001) == 4
    assert await comments_seen_by(database, watching=None) == 0


async def comments_seen_by(database: AsyncEngine, *, watching: int | None) -> int:
    """How many comments a new tenant sees that watches this channel (G7)."""
    tenant, user = uuid4(), uuid4()
    values = {"tenant": tenant, "user": user, "name": str(tenant), "channel": watching}
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:tenant, :name)"), values)
        await connection.execute(
            text("INSERT INTO users (id, tenant_id, name, role) VALUES (:user, :tenant, 'member', 'member')"), values
        )
        if watching:
            await connection.execute(
                text("INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)"),
                values,
            )
    async with as_tenant(database, tenant) as connection:
        found = await connection.execute(text("SELECT count(*) FROM posts WHERE channel_id = 2001"))
        return int(found.scalar_one())


async def test_n9_every_answer_is_progress(database: AsyncEngine) -> None:
    """Fifty threads at one request a second are longer than a job may be without progress."""
    world, _, _ = make_world()
    async with captured(database, world) as setting:
        answers = 0

        def progress() -> None:
            nonlocal answers
            answers += 1

        assert await setting.reader.step(progress) == 3
        assert answers > len(await setting.store.channels()), "not only once for a whole channel"


async def test_a_channel_that_lost_its_group_is_switched_off(database: AsyncEngine) -> None:
    world, channel, _ = make_world()
    async with captured(database, world) as setting:
        channel.linked_id = None
        assert await setting.reader.step() == 0
        assert await setting.store.channels() == []


async def test_a_channel_that_got_another_group_is_read_there_and_disturbs_no_other(database: AsyncEngine) -> None:
    world, channel, group = make_world()
    async with captured(database, world) as setting:
        assert await setting.reader.step() == 3
        group.linked_id, channel.linked_id = None, 3001
        other = world.add_channel(
            SimChannel(3001, 33, "New chat", None, NOW, group=True, linked_id=1001, members={5001})
        )
        world.post(other, Message(id=1, date=NOW, text="in the new group", comment_to=2, sender_id=5001))
        world.grow(channel, 2, replies=1)
        await setting.visit()
        assert await setting.reader.step() == 1
    async with database.connect() as connection:
        rows = await connection.execute(
            text(
                "SELECT c.channel_id, c.text, p.message_id FROM post_comments m JOIN posts c ON c.id = m.comment_id"
                " JOIN posts p ON p.id = m.post_id WHERE p.message_id = 2"
            )
        )
        assert [tuple(row) for row in rows] == [(3001, "in the new group", 2)]
