"""How fast an unpatched Telethon reads the simulator, both in one process, against Telethon's parser alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from telethon import TelegramClient
from telethon.extensions import BinaryReader
from telethon.sessions import StringSession
from telethon.tl import functions

from bench.figure import Figure
from telegram_simulator.model import Channel, Counters, Entity, File, Kind, Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

MESSAGES = 20_000
REPETITIONS = 5
START = datetime(2024, 1, 1, tzinfo=UTC)
SENTENCE = "Совет директоров утвердил отчёт за квартал, подробности в документе. "


def _message(number: int) -> Message:
    text = f"{SENTENCE}#{number} " + SENTENCE * (number % 4)
    message = Message(number, START + timedelta(minutes=number), text)
    message.entities = (Entity("bold", 0, 5), Entity("hashtag", len(SENTENCE), len(f"#{number}")))
    message.counters = Counters(views=number, forwards=number % 9, reactions={"👍": 3, "🔥": number % 5 + 1})
    if number % 5 == 0:
        message.file = File(number, number, Kind.PHOTO, "image/jpeg", lambda: bytes(20_000), width=1280, height=720)
    return message


def _world() -> World:
    world = World()
    world.add_user(User(1, 1, "Reader", phone="+10000000001"))
    channel = world.add_channel(Channel(100, 100, "News", "news", START, members={1}))
    for number in range(1, MESSAGES + 1):
        world.post(channel, _message(number))
    return world


async def _read_all(client: Any) -> None:
    count = 0
    async for _ in client.iter_messages("news", wait_time=0):
        count += 1
    if count != MESSAGES:
        raise RuntimeError(f"read {count} of {MESSAGES} messages")


async def _pages(client: Any) -> list[bytes]:
    """The bytes of every page, as the client got them."""
    peer = await client.get_input_entity("news")
    pages = []
    for newest in range(MESSAGES + 1, 1, -100):
        request = functions.messages.GetHistoryRequest(peer, newest, None, 0, 100, 0, 0, 0)
        pages.append(bytes(await client(request)))
    return pages


async def _parse(pages: list[bytes]) -> None:
    for page in pages:
        BinaryReader(page).tgread_object()


async def _cpu_seconds(work: Callable[[], Awaitable[None]]) -> float:
    started = time.process_time()
    await work()
    return time.process_time() - started


async def _measure() -> Figure:
    async with Simulator(_world()) as sim:
        client = TelegramClient(StringSession(sim.session()), 1, "hash", flood_sleep_threshold=0)
        await client.connect()
        try:
            pages = await _pages(client)
            reading, parsing = [], []
            for _ in range(REPETITIONS):  # in turn, so that a busy moment of the machine hits both
                reading.append(await _cpu_seconds(lambda: _read_all(client)))
                parsing.append(await _cpu_seconds(lambda: _parse(pages)))
        finally:
            await client.disconnect()
    return Figure(
        "simulator_messages_per_cpu_second", MESSAGES / min(reading), "messages/CPU-s", MESSAGES / min(parsing)
    )


def run() -> list[Figure]:
    """Messages per CPU-second for server and client together."""
    return [asyncio.run(_measure())]
