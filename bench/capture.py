"""What capture costs: from the simulator to committed rows and published events, beside Telethon alone and COPY."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from bench.alone import alone_process
from bench.engines import Engines, started_engines
from bench.figure import Figure
from bench.telegram import MOMENT, Served, served_world
from bench.twins import Twins
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.domain.media_rules import MediaRules, decide
from telegram_assistant.domain.source import Peer
from telegram_assistant.domain.visits import Mode
from telegram_assistant.ingest.parser import ChannelParser
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.rhythms import Intervals
from telegram_assistant.wiring.roles import collect_garbage_less

CHANNELS = 4  # as many as are visited at once
POSTS = 2500  # of each
REPETITIONS = 5
COPY_PAGE = 1000  # as many posts as capture saves at once when there is much to read


@dataclass(frozen=True)
class Cost:
    """What a piece of work took, of the CPU of one process alone, and of the day."""

    cpu: float
    wall: float


async def cost(work: Awaitable[object]) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    await work
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


class Capture:
    """The capturing side as the ingest role wires it, for channels that are all read by one account."""

    def __init__(self, engines: Engines, source: TelegramAccount, served: Served) -> None:
        self._source = source
        self._served = served
        self._channels = Channels(engines.database)
        self._saver = Saver(engines.database, clock=lambda: MOMENT, decide_media=partial(decide, rules=MediaRules()))
        statistics = Statistics(
            engines.redis, Intervals(engines.database), window=timedelta(days=14), clock=lambda: MOMENT
        )
        self._parser = ChannelParser(self._channels, self._saver, engines.redis, statistics, clock=lambda: MOMENT)
        self._relay = Relay(engines.database, Publisher(engines.redis), self._saver.committed)
        self.captured = 0  # posts, in the last run

    async def run(self, peers: list[Peer] | None = None) -> None:
        """Everything that is there, from the first request to the last event on its stream."""
        captured = asyncio.Event()
        publishing = asyncio.ensure_future(self._publish(captured))
        counts = await asyncio.gather(*(self._parse(peer) for peer in peers or self._served.peers))
        captured.set()
        self._saver.committed.set()
        await publishing
        self.captured = sum(counts)

    async def _publish(self, captured: asyncio.Event) -> None:
        """As the relay's own loop does it, but with an end."""
        while not captured.is_set():
            await self._saver.committed.wait()
            self._saver.committed.clear()
            while await self._relay.step():
                pass

    async def _parse(self, peer: Peer) -> int:
        channel = await self._channels.get(peer.channel_id)
        if channel is None:
            raise RuntimeError(f"channel {peer.channel_id} was not added")
        parsed = await self._parser.parse(channel, self._source.channel(peer), Mode.HISTORICAL, before_page=_nothing)
        return parsed.new


async def _nothing() -> None:
    pass


async def _measure() -> list[Figure]:
    async with AsyncExitStack() as stack:
        engines = await stack.enter_async_context(started_engines())
        served = await stack.enter_async_context(served_world(channels=CHANNELS, posts=POSTS))
        readers = [
            await stack.enter_async_context(alone_process(served.session, served.channels, calm=calm))
            for calm in (False, True)
        ]
        source = await stack.enter_async_context(TelegramAccount(served.client(), "bench"))
        capture = Capture(engines, source, served)
        await engines.add_channels(served.channels)
        collect_garbage_less()
        alone: list[list[Cost]] = [[], []]
        ingest: list[Cost] = []
        copying: list[float] = []
        twins = Twins(engines)
        for _ in range(REPETITIONS):  # in turn, so that a busy moment of the machine hits all
            await engines.forget_posts()
            for read, costs in zip(readers, alone, strict=True):
                count, cpu, wall = await read()
                costs.append(Cost(cpu, wall))
            ingest.append(await cost(capture.run()))
            copying.append(await twins.copy(COPY_PAGE))
            if {count, capture.captured, twins.posts} != {served.messages}:
                raise RuntimeError(f"{count}, {capture.captured}, {twins.posts} of {served.messages} messages")
    return _figures(served.messages, alone, ingest, copying)


def _figures(count: int, alone: list[list[Cost]], ingest: list[Cost], copying: list[float]) -> list[Figure]:
    cpu, wall = min(one.cpu for one in ingest), min(one.wall for one in ingest)
    plain, calm = (min(one.cpu for one in costs) for costs in alone)
    fastest = min(one.wall for costs in alone for one in costs)
    micro = 1e6 / count
    return [
        Figure("capture_cpu_beside_telethon", cpu * micro, "µs/post", plain * micro),
        Figure("capture_cpu_beside_calm_telethon", cpu * micro, "µs/post", calm * micro),
        Figure("capture_speed_beside_telethon", count / wall, "posts/s", count / fastest),
        Figure("capture_speed_beside_copy", count / wall, "posts/s", count / min(copying)),
    ]


def run() -> list[Figure]:
    """CPU of this process per post, and posts per second. At most twice the CPU of Telethon alone."""
    return asyncio.run(_measure())
