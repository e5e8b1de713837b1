"""A small world behind a simulator, and sources that can reach nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.config import TelegramServer
from telegram_assistant.domain.source import Peer
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_simulator.model import Channel, File, Forward, Kind, Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.telethon_memory import forgotten_after

START = datetime(2024, 1, 1, tzinfo=UTC)
READER, OTHER = 1001, 1002
NEWS, TALK, QUIET, SECRET = Peer(100, 11), Peer(200, 12), Peer(300, 13), Peer(400, 14)

OpenSource = Callable[..., TelegramAccount]


def picture(number: int) -> File:
    data = b"\xff\xd8picture %07d" % number * 150
    return File(7_000_000 + number, -number - 1, Kind.PHOTO, "image/jpeg", lambda: data, width=900, height=600)


def document(number: int, size: int, name: str | None = "report.pdf") -> File:
    data = (b"%%PDF %07d" % number * (size // 12 + 1))[:size]
    return File(8_000_000 + number, number + 1, Kind.DOCUMENT, "application/pdf", lambda: data, name=name)


def fill(world: World, channel: Channel, count: int) -> None:
    for number in range(channel.newest_id + 1, channel.newest_id + count + 1):
        world.post(channel, Message(number, START + timedelta(minutes=number), f"Post {number}"))


@pytest.fixture
def world() -> World:
    """News (joined, with a discussion group), a quiet channel, a private one, and two users."""
    world = World()
    world.add_user(User(READER, 501, "Ann", phone="+79990000001", username="Ann_Reads"))
    world.add_user(User(OTHER, 502, "Bob", phone="+79990000002"))
    news = Channel(100, 11, "News", "News_Daily", START, about="All of it", members={READER}, subscribers=77)
    talk = Channel(200, 12, "Talk", None, START, group=True, members={READER})
    news.linked_id, talk.linked_id = talk.id, news.id
    for channel in (
        news,
        talk,
        Channel(300, 13, "Quiet", "quiet", START),
        Channel(400, 14, "Secret", None, START, private=True, members={OTHER}, invite="come-in-here"),
        Channel(500, 15, "Club", None, START, private=True, members={READER}, invite="our-own-club"),
    ):
        world.add_channel(channel)
    return world


@pytest.fixture
def news(world: World) -> Channel:
    return world.channels[100]


@pytest.fixture
def discussed(world: World, news: Channel) -> Channel:
    """News with one post, and five comments under it by two people."""
    talk = world.channels[200]
    fill(world, news, 1)
    world.post(talk, Message(1, START, "Post 1", forward=Forward(100, 1, START)))
    for number in range(2, 7):
        world.post(
            talk, Message(number, START, f"Comment {number}", comment_to=1, sender_id=OTHER if number % 2 else READER)
        )
    return talk


@pytest.fixture
async def sim(world: World) -> AsyncIterator[Simulator]:
    """A running simulator; a request that it did not know fails the test."""
    async with Simulator(world) as simulator:
        yield simulator
    assert simulator.unhandled == []


@pytest.fixture
async def open_source(sim: Simulator) -> AsyncIterator[OpenSource]:
    """Makes sources of the first user, and closes them."""
    made: list[TelegramAccount] = []

    def make(*, user_id: int = READER, purpose: Any = "read", at: Simulator = sim, **options: Any) -> TelegramAccount:
        client = open_client(
            api_id=1,
            api_hash="hash",
            session=sim.session(user_id),
            server=TelegramServer.parse(at.address),
            rsa_key_pem=sim.public_key_pem,
            purpose=purpose,
        )
        assert client.session.server_address == "127.0.0.1", "a test must never reach the real Telegram"
        client._sender._delay = 0.02  # noqa: SLF001 - not half a second for a server that is gone
        made.append(TelegramAccount(client, f"account-{user_id}", **options))
        return made[-1]

    yield make
    for source in made:
        await source.close()


@pytest.fixture
def source(open_source: OpenSource) -> TelegramAccount:
    return open_source()


@pytest.fixture(autouse=True)
def _telethon() -> Iterator[None]:
    with forgotten_after():
        yield
