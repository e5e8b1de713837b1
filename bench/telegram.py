"""A simulated Telegram in a process of its own, so that a benchmark counts only the CPU time of who reads it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from telegram_assistant.config import TelegramServer
from telegram_assistant.domain.source import Peer
from telegram_assistant.source.telegram_client import open_client
from telegram_simulator.generate import build_world
from telegram_simulator.model import Channel
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

MOMENT = datetime(2026, 1, 15, 12, tzinfo=UTC)  # the world ends here, so that every run reads the same


@dataclass(frozen=True)
class Served:
    """Where the simulated Telegram is, and what can be read there."""

    address: str
    key: str
    session: str
    channels: list[tuple[int, int, str]]  # id, access hash, username
    messages: int

    @property
    def peers(self) -> list[Peer]:
        return [Peer(channel_id, access_hash) for channel_id, access_hash, _ in self.channels]

    def client(self) -> Any:
        """Telethon, as capture uses it."""
        return open_client(
            api_id=1,
            api_hash="bench",
            session=self.session,
            server=TelegramServer.parse(self.address),
            rsa_key_pem=self.key,
        )


@asynccontextmanager
async def served_world(*, channels: int, posts: int, copies: int = 1) -> AsyncIterator[Served]:
    """`channels` generated channels of about `posts` messages each, every one served under `copies` ids."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.telegram", str(channels), str(posts), str(copies)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a pipe was asked for")
    try:
        yield Served(**json.loads(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


def _world(channels: int, posts: int, copies: int) -> World:
    world = build_world(seed=5, channels=channels, posts=posts, now=MOMENT, days=60, private_share=0, spread=0)
    for channel in [channel for channel in world.channels.values() if not channel.group]:
        for number in range(1, copies):
            world.add_channel(_copy(channel, number))
    return world


def _copy(channel: Channel, number: int) -> Channel:
    """Another channel with the very same messages: a world of a million of them fits into memory."""
    return Channel(
        id=channel.id + 2_000_000_000 * number,
        access_hash=channel.access_hash,
        title=f"{channel.title} {number}",
        username=f"{channel.username}_{number}",
        created=channel.created,
        messages=channel.messages,
        newest_id=channel.newest_id,
        pts=channel.pts,
    )


async def _serve(channels: int, posts: int, copies: int) -> None:
    world = _world(channels, posts, copies)
    read = [channel for channel in world.channels.values() if not channel.group]
    async with Simulator(world) as simulator:
        served = Served(
            simulator.address,
            simulator.public_key_pem,
            simulator.session(),
            [(channel.id, channel.access_hash, channel.username or "") for channel in read],
            sum(len(channel.messages) for channel in read),
        )
        print(json.dumps(asdict(served)), flush=True)
        await asyncio.to_thread(sys.stdin.read)  # the end of it is the end of us


if __name__ == "__main__":
    asyncio.run(_serve(*map(int, sys.argv[1:])))
