"""What capture costs: from the simulator to committed rows and events, beside Telethon alone and beside plain COPY."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from telethon.tl import functions, types

from bench.engines import Engines, started_engines
from bench.figure import Figure
from bench.telegram import MOMENT, Served, served_world
from telegram_assistant.bus.publisher import Publisher
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.media_rules import MediaRules, decide
from telegram_assistant.domain.modes import Mode
from telegram_assistant.ingest.parser import ChannelParser
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.ingest.source import PAGE_LIMIT
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.source.telegram import TelegramSource
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.intervals import Intervals

CHANNELS = 4
POSTS = 2500  # of each
REPETITIONS = 5


@dataclass(frozen=True)
class Cost:
    """What a piece of work took of this process alone."""

    cpu: float
    wall: float


async def cost(work: Awaitable[None]) -> Cost:
    began, wall = time.process_time(), time.perf_counter()
    await work
    return Cost(time.process_time() - began, time.perf_counter() - wall)


async def read_alone(client: Any, served: Served) -> None:
    """The same pages, parsed by Telethon and thrown away."""
    count = 0
    for peer in served.peers:
        where, after = types.InputPeerChannel(peer.channel_id, peer.access_hash), 0
        while True:
            request = functions.messages.GetHistoryRequest(
                where, after + 1, None, -PAGE_LIMIT, PAGE_LIMIT, 0, max(0, after - 1), 0
            )
            found = (await client(request)).messages
            count += sum(message.id > after for message in found)
            if not found or found[-1].id <= after:
                break
            after = found[0].id
    _check(count, served)


class Capture:
    """The capturing side as the ingest role wires it, for channels that are all read by one account."""

    def __init__(self, engines: Engines, source: TelegramSource, served: Served) -> None:
        self._engines = engines
        self._source = source
        self._served = served
        self._channels = Channels(engines.database)
        clock: Callable[[], Any] = lambda: MOMENT  # noqa: E731 - shorter than a function
        self.saver = Saver(engines.database, clock=clock, decide_media=partial(decide, rules=MediaRules()))
        statistics = Statistics(engines.redis, Intervals(engines.database), window=timedelta(days=14), clock=clock)
        self._parser = ChannelParser(self._channels, self.saver, engines.redis, statistics, clock=clock)
        self._relay = Relay(engines.database, Publisher(engines.redis), self.saver.committed)

    async def add_channels(self) -> None:
        """All of their history is asked for."""
        async with raw_transaction(self._engines.database) as connection:
            await connection.executemany(
                "INSERT INTO channels (id, title, username, requested_from) VALUES ($1, $2, $2, 1)",
                [(channel_id, username) for channel_id, _, username in self._served.channels],
            )

    async def run(self) -> None:
        supervisor = Supervisor()
        await supervisor.start("relay", self._relay.run)
        try:
            count = 0
            for peer in self._served.peers:
                channel = await self._channels.get(peer.channel_id)
                if channel is None:
                    raise RuntimeError(f"channel {peer.channel_id} was not added")
                parsed = await self._parser.parse(
                    channel, self._source, peer, Mode.HISTORICAL, before_page=_nothing_before
                )
                count += parsed.new
        finally:
            await supervisor.stop(["relay"])
        while await self._relay.step():
            pass
        _check(count, self._served)


async def _nothing_before() -> None:
    pass


def _check(count: int, served: Served) -> None:
    if count != served.messages:
        raise RuntimeError(f"read {count} of {served.messages} messages")


async def _measure() -> list[Figure]:
    async with started_engines() as engines, served_world(channels=CHANNELS, posts=POSTS) as served:
        client = served.client()
        async with TelegramSource(client, "bench") as source:
            capture = Capture(engines, source, served)
            await capture.add_channels()
            alone, ingest = [], []
            for _ in range(REPETITIONS):  # in turn, so that a busy moment of the machine hits both
                alone.append(await cost(read_alone(client, served)))
                ingest.append(await cost(capture.run()))
                await engines.forget_posts()
    million = 1e6 / served.messages
    print([round(c.cpu * million) for c in alone], [round(c.cpu * million) for c in ingest])
    print([round(c.wall * million) for c in alone], [round(c.wall * million) for c in ingest])
    return []


def run() -> list[Figure]:
    return asyncio.run(_measure())
