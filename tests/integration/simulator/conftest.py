"""A small world, a simulator that serves it, and clients that can reach nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest
from telethon import TelegramClient
from telethon.crypto import rsa
from telethon.sessions import MemorySession, StringSession

from telegram_simulator.model import (
    Channel,
    Counters,
    Entity,
    File,
    Forward,
    Kind,
    Message,
    Poll,
    Service,
    User,
)
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.telethon_memory import forgotten_after

START = datetime(2024, 1, 1, tzinfo=UTC)
READER, OTHER = 1001, 1002


class Connect(Protocol):
    """Makes a connected client; the fixture disconnects it."""

    def __call__(self, session: Any = None, **options: Any) -> Awaitable[Any]: ...


def picture(number: int) -> File:
    return File(
        id=7_000_000 + number,
        access_hash=-number - 1,
        kind=Kind.PHOTO,
        mime="image/jpeg",
        draw=lambda: b"\xff\xd8picture %07d" % number * 150,
        width=900,
        height=600,
    )


def document(number: int, size: int = 5_000) -> File:
    return File(
        id=8_000_000 + number,
        access_hash=number + 1,
        kind=Kind.DOCUMENT,
        mime="application/pdf",
        draw=lambda: (b"%%PDF %07d" % number * size)[:size],
        name=f"report-{number}.pdf",
    )


def message(number: int) -> Message:
    """A message of one of many kinds, told by its id."""
    date = START + timedelta(minutes=number)
    if number == 1:
        return Message(number, date, service=Service("created", "News"))
    made = Message(number, date, f"Пост {number} 🎈 https://example.org/{number}", author="Ann")
    made.counters = Counters(views=number * 3, forwards=number % 5, reactions={"👍": number % 4 + 1})
    made.entities = (
        Entity("bold", 0, 4),
        Entity("url", made.text.encode("utf-16-le").index("h".encode("utf-16-le")) // 2, 20),
    )
    match number % 11:
        case 2 | 3:
            made.file = picture(number)
            made.grouped_id = 5_000_000 + number // 11
        case 4:
            made.file = document(number)
        case 5:
            made.forward = Forward(300, number, date - timedelta(days=1), author="Bob")
        case 6:
            made.reply_to = number - 1
        case 7:
            made.poll = Poll(9_000 + number, "Да?", ("да", "нет"))
        case 8:
            made.entities = (Entity("text_url", 0, 4, f"https://example.org/{number}"), Entity("hashtag", 5, 2))
    return made


def fill(world: World, channel: Channel, count: int) -> None:
    for number in range(channel.newest_id + 1, channel.newest_id + count + 1):
        world.post(channel, message(number))


@pytest.fixture
def world() -> World:
    """News (joined, with a discussion group), a quiet channel, a private one, and two users."""
    world = World()
    world.add_user(User(READER, 501, "Ann", phone="+79990000001", username="ann_reads"))
    world.add_user(User(OTHER, 502, "Bob", phone="+79990000002"))
    news = world.add_channel(
        Channel(100, 11, "News", "News_Daily", START, about="All of it", members={READER}, subscribers=77)
    )
    talk = world.add_channel(Channel(200, 12, "Talk", None, START, group=True, members={READER}))
    news.linked_id, talk.linked_id = talk.id, news.id
    world.add_channel(Channel(300, 13, "Quiet", "quiet", START))
    world.add_channel(Channel(400, 14, "Secret", None, START, private=True, members={OTHER}, invite="come-in"))
    return world


@pytest.fixture
def news(world: World) -> Channel:
    return world.channels[100]


@pytest.fixture
async def sim(world: World) -> AsyncIterator[Simulator]:
    """A running simulator. A request that it did not know fails the test, unless the test clears the list."""
    async with Simulator(world) as simulator:
        yield simulator
    assert simulator.unhandled == []


@pytest.fixture
async def connect(sim: Simulator) -> AsyncIterator[Connect]:
    """Connected clients that never sleep for long by themselves."""
    clients: list[Any] = []

    async def make(session: Any = None, **options: Any) -> Any:
        chosen = StringSession(sim.session()) if session is None else session
        assert chosen.server_address == "127.0.0.1", "a test must never reach the real Telegram"
        settings = {
            "flood_sleep_threshold": 0,
            "request_retries": 0,
            "retry_delay": 0.05,
            "connection_retries": 3,
            **options,
        }
        client = TelegramClient(chosen, 1, "hash", **settings)
        clients.append(client)
        await client.connect()
        return client

    yield make
    for client in clients:
        if client.session is not None:
            await client.disconnect()


@pytest.fixture
def fresh_session(sim: Simulator) -> Callable[[], Any]:
    """Sessions of a new device: no auth key yet, pointed at the simulator."""
    rsa.add_key(sim.public_key_pem, old=False)

    def make() -> Any:
        session = MemorySession()
        session.set_dc(2, "127.0.0.1", sim.port)
        return session

    return make


@pytest.fixture
def fill_news(world: World, news: Channel) -> Callable[[int], None]:
    return lambda count: fill(world, news, count)


@pytest.fixture(autouse=True)
def _telethon() -> Iterator[None]:
    with forgotten_after():
        yield
