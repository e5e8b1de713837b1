"""Real `tga worker` processes beside a benchmark that saves posts as ingest does, and hears when each is indexed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil

from bench.engines import Engines
from telegram_assistant.bus.streams import FIELD, Publisher, decode
from telegram_assistant.bus.supervisor import Supervisor, Task
from telegram_assistant.domain.events import PostIndexed
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaRules, decide
from telegram_assistant.domain.post import Post, post_id
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.names import POSTS_INDEXED, stream
from telegram_assistant.stores.redis import open_redis

CHANNELS = 10
MEGABYTE = 2**20
READY_SECONDS = 90.0
MODULES = {"local.worker": "text models", "vision.worker": "vision", "crawl.worker": "page reader"}


@dataclass
class Desk:
    """Saves posts of a few channels, and keeps when each was committed and when it was told as indexed."""

    engines: Engines
    texts: Sequence[str]
    committed: dict[UUID, float] = field(default_factory=dict)
    indexed: dict[UUID, float] = field(default_factory=dict)
    _heard: asyncio.Event = field(default_factory=asyncio.Event)
    _newest: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(1, CHANNELS + 1), 0))

    def __post_init__(self) -> None:
        now = partial(datetime.now, UTC)
        self.saver = Saver(self.engines.database, clock=now, decide_media=partial(decide, rules=MediaRules()))
        self._texts = cycle(self.texts)
        self._channels = cycle(self._newest)

    async def open(self) -> None:
        await self.engines.add_channels((channel, 0, f"channel_{channel}") for channel in self._newest)

    async def save(self, count: int) -> list[UUID]:
        """So many new posts of one channel, in one transaction."""
        channel = next(self._channels)
        first = self._newest[channel] + 1
        self._newest[channel] += count
        now = datetime.now(UTC) - timedelta(seconds=1)
        posts = [
            # No text twice: results of models are kept by it.
            Post(channel_id=channel, message_id=number, posted_at=now, text=f"{next(self._texts)} {channel}/{number}")
            for number in range(first, first + count)
        ]
        last = first + count - 1
        proven = Coverage.of_spans((first, last + 1))
        await self.saver.save(Reading(channel_id=channel, posts=posts, proven=proven, newest_id=last, cursor_id=last))
        ids = [post_id(channel, post.message_id) for post in posts]
        self.committed |= dict.fromkeys(ids, time.perf_counter())
        return ids

    async def hear(self, task: Task) -> None:
        """A supervised job: note what is told as indexed."""
        redis, after = open_redis(self.engines.redis_url), "0"
        task.ready()
        try:
            while True:
                answer: Any = await redis.xread({stream(POSTS_INDEXED): after}, block=1000)
                now = time.perf_counter()
                for _, entries in answer or []:
                    after = entries[-1][0]
                    for _, entry in entries:
                        for event in decode(PostIndexed, entry[FIELD]):
                            self.indexed.setdefault(event.post_id, now)
                self._heard.set()
                task.progress()  # redis-py may swallow the cancellation that ends us
        finally:
            await redis.aclose()

    async def until_indexed(self, posts: Sequence[UUID], seconds: float) -> int:
        """Wait for them, at most so long; how many are."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not all(post in self.indexed for post in posts):
                    self._heard.clear()
                    await self._heard.wait()
        return sum(post in self.indexed for post in posts)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """With what publishes and hears beside it."""
        supervisor = Supervisor()
        relay = Relay(self.engines.database, Publisher(self.engines.redis), self.saver.committed)
        await supervisor.start("relay", relay.run)
        await supervisor.start("hearing", self.hear)
        try:
            yield
        finally:
            await supervisor.stop()


@dataclass
class Workers:
    """Some worker processes on one data folder."""

    processes: list[asyncio.subprocess.Process]

    def memory(self) -> dict[str, float]:
        """Resident megabytes, by what the process is for."""
        found: dict[str, float] = {}
        for process in self.processes:
            worker = psutil.Process(process.pid)
            for one in (worker, *worker.children(recursive=True)):
                what = _what(one)
                found[what] = found.get(what, 0.0) + one.memory_info().rss / MEGABYTE
        return found


def _what(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    return next((what for module, what in MODULES.items() if module in command), "worker")


@asynccontextmanager
async def started_workers(
    engines: Engines, folder: Path, count: int, settings: Mapping[str, str]
) -> AsyncIterator[Workers]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    environment = {
        **kept,
        "TGA_DATA_DIR": str(folder),
        "DATABASE_URL": engines.database_url,
        "REDIS_URL": engines.redis_url,
        "TELEGRAM_API_ID": "1",
        "TELEGRAM_API_HASH": "of nobody: workers do not connect to Telegram",
        "WORKER_HEALTH_PORT": "0",
        "LOG_LEVEL": "WARNING",
        **settings,
    }
    folder.mkdir(parents=True, exist_ok=True)
    workers = Workers([await _start(environment, folder) for _ in range(count)])
    try:
        yield workers
    finally:
        for process in workers.processes:
            with suppress(ProcessLookupError):
                process.terminate()
        for process in workers.processes:
            await process.communicate()


async def _start(environment: Mapping[str, str], folder: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "telegram_assistant", "worker"),
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdout is None:
        raise RuntimeError("the process has no output")
    async with asyncio.timeout(READY_SECONDS):
        async for line in process.stdout:
            if b"is ready" in line:
                return process
    raise RuntimeError("the worker ended before it was ready")


@asynccontextmanager
async def ready_vectors(size: int) -> AsyncIterator[str]:
    """The address of a server that has every vector ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.ready_vectors", str(size)),
        cwd=Path(__file__).parents[1],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdout is None:
        raise RuntimeError("the process has no output")
    port = int(await process.stdout.readline())
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()  # another child process may hold its input open
        await process.communicate()
