"""A channel is added and read by its public preview, and goes on in place when an account comes (G1, G2, G8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.config import Settings, TelegramServer
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.source import Source
from telegram_assistant.domain.visits import Mode
from telegram_assistant.ingest.account_in_use import Budget
from telegram_assistant.ingest.accounts import AccountPool
from telegram_assistant.ingest.audit import Auditor
from telegram_assistant.ingest.backfill import Backfill, HoleFiller
from telegram_assistant.ingest.catching_up import CatchingUp
from telegram_assistant.ingest.origins import Origins
from telegram_assistant.ingest.parser import ChannelParser
from telegram_assistant.ingest.requests import ChannelRequests
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.source.preview import PreviewChannel, Previews
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.rhythms import Intervals
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.previews import open_previews
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Counters, Entity, File, Forward, Kind, Message, Poll, Service, User
from telegram_simulator.preview import PreviewPages
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

NEWS = 1001
NOW = datetime.now(UTC).replace(microsecond=0)
POSTS = 130


def now() -> datetime:
    return datetime.now(UTC)


def photo(number: int) -> File:
    return File(
        5_000_000 + number, number, Kind.PHOTO, "image/jpeg", lambda: b"\xff\xd8 %d" % number, width=90, height=9
    )


def make_world() -> World:
    """Every kind of post, albums across pages, deleted ids, one hundred and thirty in all."""
    world = World()
    world.add_user(User(5001, 77, "Reader", phone="79990000001"))
    news = world.add_channel(SimChannel(NEWS, 11, "News", "the_news", NOW - timedelta(days=9), subscribers=12_345))
    other = world.add_channel(SimChannel(1002, 12, "Other", "other_news", NOW - timedelta(days=9)))
    world.post(other, Message(1, NOW - timedelta(days=8), "origin"))
    for number in range(1, POSTS + 1):
        message = Message(number, NOW - timedelta(hours=POSTS + 1 - number), f"Post {number} 🔥\n\nsecond line")
        message.counters = Counters(views=1000 + number * 37, forwards=number, reactions={"👍": number})
        match number % 13:
            case 1:
                message.entities = (Entity("bold", 0, 4), Entity("italic", 5, 1))
            case 2 | 3 | 4:
                message.file, message.grouped_id = photo(number), 9_000 + number // 13
                captions = {2} if number < 40 else {3} if number < 95 else {3, 4}
                message.text = message.text if number % 13 in captions else ""
            case 5:
                message.text = "see https://a.example/x and that"
                message.entities = (Entity("url", 4, 19), Entity("text_url", 28, 4, "https://b.example/"))
            case 6:
                message.text, message.poll = "", Poll(number, "Well?", ("yes", "no"))
            case 7:
                message.text, message.service = "", Service("photo")
            case 8:
                message.forward, message.author = Forward(1002, 1, NOW - timedelta(days=8)), "Ann"
            case 9:
                message.file, message.reply_to = photo(number), number - 1
        world.post(news, message)
    world.delete(news, [11, 12, *range(62, 90), 129])
    return world


class Scene:
    """What ingest is made of, with the preview and without an account at first."""

    def __init__(self, database: AsyncEngine, redis: Redis, sim: Simulator, web: PreviewPages) -> None:
        self.database, self.redis, self.sim, self.web, self.world = database, redis, sim, web, sim.world
        self.news = self.world.channels[NEWS]
        self.store = TelegramAccounts(database, Sealer("the key of these tests"))
        self.channels, self.audits = Channels(database), Audits(database)
        self.later = 0.0
        self.pool = AccountPool(
            self.store, self.channels, self._open, clock=now, paced=False, ticks=lambda: monotonic() + self.later
        )
        site = open_previews(Settings(preview_hosts=web.address, preview_pause_sec=0), clock=now)
        assert site is not None
        self.origins = Origins(self.pool, Previews(site))
        self.saver = Saver(database, clock=now, decide_media=lambda _: MediaDecision("pending"))
        filler = HoleFiller(self.channels, self.saver, clock=now)
        self.backfill = Backfill(self.channels, filler, self.origins, redis, owner="one")
        statistics = Statistics(redis, Intervals(database), window=timedelta(days=7), clock=now)
        catch_up = CatchingUp(self.audits, self.saver, clock=now)
        self.parser = ChannelParser(self.channels, self.saver, redis, statistics, clock=now, catch_up=catch_up)
        self.auditor = Auditor(self.channels, self.audits, self.saver, self.origins, every_seconds=3600, clock=now)

    def _open(
        self, session: str, account_id: str, gate: Budget | None, *, live: bool = False, proxy: str | None = None
    ) -> TelegramAccount:
        assert proxy is None
        client = open_client(
            api_id=1,
            api_hash="hash",
            session=session,
            server=TelegramServer.parse(self.sim.address),
            rsa_key_pem=self.sim.public_key_pem,
            purpose="live" if live else "read",
        )
        return TelegramAccount(client, account_id, gate=gate)

    async def add(self) -> None:
        requests = Requests(self.database)
        await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), "@the_news")
        assert await ChannelRequests(requests, self.origins, clock=now, due=asyncio.Event()).step() == 1

    async def channel(self) -> Channel:
        channel = await self.channels.get(NEWS)
        assert channel is not None
        return channel

    async def visit(self) -> Source:
        channel = await self.channel()
        source = await self.origins.reader(channel)
        await self.parser.parse(channel, source, Mode.HISTORICAL, before_page=_go_on)
        return source

    async def read_all(self) -> None:
        """To its beginning, with everything proven."""
        await self._run("UPDATE channels SET history_from = '2013-01-01'")
        for _ in range(20):
            await self.backfill.step()
            if not (await self.channels.ledger(NEWS)).unknown:
                return
        raise AssertionError((await self.channels.ledger(NEWS)).holes)

    async def rows(self, statement: str) -> list[Any]:
        async with self.database.connect() as connection:
            return list(await connection.execute(text(statement)))

    async def _run(self, statement: str) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(statement))

    async def stored(self) -> dict[int, str]:
        found = await self.rows("SELECT message_id, text FROM posts WHERE deleted_at IS NULL")
        return {row.message_id: row.text for row in found}

    async def versions(self) -> list[tuple[int, str]]:
        found = await self.rows(
            "SELECT p.message_id, v.text FROM post_versions v JOIN posts p ON p.id = v.post_id ORDER BY 1, v.version"
        )
        return [(row.message_id, row.text) for row in found]

    async def albums(self) -> list[tuple[int, int]]:
        found = await self.rows("SELECT grouped_id, items_count FROM media_groups ORDER BY 1")
        return [(row.grouped_id, row.items_count) for row in found]


async def _go_on() -> None:
    """There is no lease to keep."""


@pytest.fixture
async def scene(database: AsyncEngine, redis: Redis) -> AsyncIterator[Scene]:
    world = make_world()
    async with Simulator(world) as sim, PreviewPages(world) as web:
        scene = Scene(database, redis, sim, web)
        await scene.pool.start()
        yield scene
        await scene.pool.close()


async def test_read_by_its_preview_to_the_beginning_and_on_with_an_account(scene: Scene) -> None:
    scene.web.left_out |= {(NEWS, number) for number in (20, 33, 100)}  # there, and on no page
    await scene.add()
    assert isinstance(await scene.visit(), PreviewChannel)
    await scene.read_all()
    ledger = await scene.channels.ledger(NEWS)
    assert (ledger.unknown, ledger.requested_from, ledger.captured) == (0, 1, len(scene.news.messages))
    assert await scene.stored() == {one.id: one.text for one in _as_shown(scene.news.messages.values())}
    # An edit that the page showed is a version, and stays one.
    before = scene.news.messages[127].text
    scene.world.edit(scene.news, 127, "said otherwise")
    scene.world.delete(scene.news, [126])
    await scene.visit()
    assert await scene.versions() == [(127, before)]
    assert 126 not in await scene.stored()

    await scene.store.add(telegram_user_id=5001, name="Reader", session=scene.sim.session(5001))
    scene.later = 3600.0  # accounts are looked for now and then
    assert not isinstance(await scene.visit(), PreviewChannel)
    for _ in range(20):  # the full audit that such a change of readers asks for
        if not (await scene.audits.waiting()).channels:
            break
        await scene.auditor.step()
    now_there = scene.news.messages
    assert await scene.stored() == {one.id: one.text for one in now_there.values()}
    assert await scene.versions() == [(127, before)]
    after = await scene.channels.ledger(NEWS)
    assert (after.unknown, after.coverage.count) == (0, ledger.coverage.count)
    rows = await scene.rows("SELECT message_id, views, forwards, details ? 'preview' AS rough FROM posts")
    assert {row.message_id for row in rows if row.rough} <= {126}
    told = {row.message_id: (row.views, row.forwards) for row in rows}
    # Telegram counts nothing for service messages.
    plain = [one for one in now_there.values() if one.service is None]
    assert all(told[one.id] == (one.counters.views, one.counters.forwards) for one in plain)
    groups: dict[int, int] = {}
    for one in now_there.values():
        if one.grouped_id is not None:
            groups[one.grouped_id] = groups.get(one.grouped_id, 0) + 1
    assert await scene.albums() == sorted(groups.items())


def _as_shown(messages: Any) -> list[Message]:
    """A page shows the caption of an album with its first item."""
    captions: dict[int, str] = {}
    shown = []
    for one in messages:
        if one.grouped_id is not None and one.text:
            captions.setdefault(one.grouped_id, one.text)
    first: set[int] = set()
    for one in messages:
        said = one.text
        if one.grouped_id is not None:
            said = "" if one.grouped_id in first else captions.get(one.grouped_id, "")
            first.add(one.grouped_id)
        shown.append(Message(one.id, one.date, said))
    return shown


async def test_a_soft_ban_leaves_holes_and_deletes_nothing(scene: Scene) -> None:
    await scene.add()
    await scene.visit()
    await scene.read_all()
    known = await scene.stored()
    scene.web.faults.add(Fault("web_soft_ban", "web.post"))
    scene.web.left_out |= {(NEWS, number) for number in range(100, 128)}
    await scene.visit()  # what it misses on the pages is asked for, and no answer counts
    assert scene.web.faults.fired["web_soft_ban"] > 0
    assert await scene.stored() == known


async def test_a_page_read_again_changes_nothing(scene: Scene) -> None:
    await scene.add()
    await scene.visit()
    await scene.read_all()
    [before] = await scene.rows("SELECT count(*), max(version), sum(views) FROM posts")
    await scene.visit()
    assert await scene.rows("SELECT count(*), max(version), sum(views) FROM posts") == [before]
    assert await scene.versions() == []
    assert await scene.rows("SELECT 1 FROM post_counters") == []
