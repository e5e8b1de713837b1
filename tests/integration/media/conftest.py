"""A channel with files behind a simulator, captured by the real saver, and a processor that a test drives by steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import obstore
import pytest
from obstore.store import LocalStore
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.config import TelegramServer
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import decide
from telegram_assistant.domain.source import Peer, Source
from telegram_assistant.ingest.media import DownloadRules, MediaProcessor
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.channels import Channel as ChannelRow
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.media import MediaQueue
from telegram_simulator.model import Channel, File, Kind, Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.telethon_memory import forgotten_after

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
READER = 1001


def photo(number: int, data: bytes | None = None, **fields: Any) -> File:
    made = b"\xff\xd8picture %07d" % number * 3000 if data is None else data
    return File(7_000_000 + number, -number - 1, Kind.PHOTO, "image/jpeg", lambda: made, width=90, height=60, **fields)


def paper(number: int, data: bytes | None = None, mime: str = "application/pdf", **fields: Any) -> File:
    made = b"%%PDF %07d" % number * 100_000 if data is None else data
    return File(8_000_000 + number, number + 1, Kind.DOCUMENT, mime, lambda: made, **fields)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **span: float) -> None:
        self.now += timedelta(**span)


@dataclass
class OneAccount:
    """All channels are read with one account. A test may put an error in the way."""

    source: TelegramAccount
    world: World
    errors: list[Exception] = field(default_factory=list)

    async def reach(self) -> None:
        """All channels."""

    async def reader(self, channel: ChannelRow, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        if self.errors:
            raise self.errors[0]
        return self.source.channel(Peer(channel.id, self.world.channels[channel.id].access_hash))


@dataclass
class Desk:
    """Everything a test needs of the system, in one place."""

    world: World
    news: Channel
    sim: Simulator
    source: TelegramAccount
    accounts: OneAccount
    database: AsyncEngine
    folder: Path
    store: MediaStore
    queue: MediaQueue
    clock: Clock
    rules: DownloadRules = field(default_factory=DownloadRules)

    def post(self, *files: File, channel: Channel | None = None) -> list[Message]:
        where = channel or self.news
        return [
            self.world.post(where, Message(where.newest_id + 1, START, f"file {file.id}", file=file)) for file in files
        ]

    async def capture(self, channel: Channel | None = None) -> None:
        """Read the whole channel and save it, as a visit does."""
        where = channel or self.news

        saver = Saver(self.database, clock=self.clock, decide_media=lambda media: decide(media, self.rules.media))
        after, end = 0, False
        while not end:
            page = await self.source.channel(Peer(where.id, where.access_hash)).page_after(after)
            last = page.posts[-1].message_id if page.posts else after
            proven = Coverage.of_spans((after + 1, last + 1)) if page.posts else Coverage.of_spans()
            await saver.save(Reading(channel_id=where.id, posts=page.posts, proven=proven, cursor_id=last))
            after, end = last, page.reached_end

    def processor(self) -> MediaProcessor:
        return MediaProcessor(
            self.queue,
            Channels(self.database),
            self.store,
            self.accounts,
            rules=self.rules,
            clock=self.clock,
            rng=Random(1),
        )

    async def fetch(self) -> None:
        """Deal with everything that is due now."""
        processor = self.processor()
        while await processor.step():
            pass

    async def rows(self) -> list[Any]:
        """Every file of a post, as the database tells it."""
        statement = text(
            "SELECT p.channel_id, p.message_id, m.kind, m.name, m.status, m.reason, m.attempts, m.next_attempt_at,"
            " m.sha256, o.storage_key, o.size FROM post_media m JOIN posts p ON p.id = m.post_id"
            " LEFT JOIN media_objects o USING (sha256) ORDER BY p.channel_id, p.message_id, m.position"
        )
        async with self.database.connect() as connection:
            return list(await connection.execute(statement))

    async def statuses(self) -> list[str]:
        return [row.status for row in await self.rows()]

    async def read(self, key: str) -> bytes:
        return b"".join([piece async for piece in self.store.stream(key)])

    def objects(self) -> set[str]:
        if not self.folder.is_dir():
            return set()
        return {found["path"] for batch in obstore.list(LocalStore(self.folder)) for found in batch}

    def asked(self, method: str) -> int:
        return sum(call.method == method for call in self.sim.rpc_log)

    async def add(self, channel: Channel, tenant: str | None = None) -> None:
        statement = text(
            "INSERT INTO channels (id, title, username, requested_from, tenant_id) VALUES (:id, :title, :name, 1, :of)"
        )
        values = {"id": channel.id, "title": channel.title, "name": channel.username, "of": tenant}
        async with self.database.begin() as connection:
            await connection.execute(statement, values)


@pytest.fixture
def world() -> World:
    world = World(now=lambda: START)
    world.add_user(User(READER, 501, "Ann", phone="+79990000001"))
    world.add_channel(Channel(100, 11, "News", "news_daily", START, members={READER}))
    return world


@pytest.fixture
async def sim(world: World) -> AsyncIterator[Simulator]:
    async with Simulator(world) as simulator:
        yield simulator
    assert simulator.unhandled == []


@pytest.fixture
async def source(sim: Simulator) -> AsyncIterator[TelegramAccount]:
    client = open_client(
        api_id=1,
        api_hash="hash",
        session=sim.session(),
        server=TelegramServer.parse(sim.address),
        rsa_key_pem=sim.public_key_pem,
    )
    assert client.session.server_address == "127.0.0.1", "a test must never reach the real Telegram"
    made = TelegramAccount(client, "one")
    yield made
    await made.close()


@pytest.fixture
async def desk(world: World, sim: Simulator, source: TelegramAccount, database: AsyncEngine, tmp_path: Path) -> Desk:
    news = max(world.channels.values(), key=lambda channel: len(channel.messages))
    folder = tmp_path / "media"
    made = Desk(
        world=world,
        news=news,
        sim=sim,
        source=source,
        accounts=OneAccount(source, world),
        database=database,
        folder=folder,
        store=MediaStore.open(folder),
        queue=MediaQueue(database),
        clock=Clock(),
    )
    await made.add(news)
    return made


@pytest.fixture
def make_photo() -> Callable[..., File]:
    return photo


@pytest.fixture
def make_paper() -> Callable[..., File]:
    return paper


@pytest.fixture(autouse=True)
def _telethon() -> Iterator[None]:
    with forgotten_after():
        yield
