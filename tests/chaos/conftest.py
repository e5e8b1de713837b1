"""What chaos needs: a world that lives, engines and processes to kill at random, and somebody who restarts them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.migrate import migrate
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.stores.redis import open_redis
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.faults import Fault
from telegram_simulator.generate import build_world
from telegram_simulator.life import Life
from telegram_simulator.model import Channel, Ids
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

SECRET = "of the chaos"
FILES_OF = timedelta(days=2)
ENGINE_SECONDS = 300.0
OUTAGE = (OSError, SQLAlchemyError)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large, how long and how bad."""

    seed: int
    channels: int
    posts: int
    kills: int
    pause: tuple[float, float]  # seconds between two kills
    lived: timedelta  # how much of the world's time passes meanwhile
    settle_seconds: float
    ids: Ids = Ids.DENSE  # how the world numbers its messages

    @property
    def seconds(self) -> float:
        return self.kills * sum(self.pause) / 2


def faults(share: float) -> list[Fault]:
    """So many of all requests go wrong, in every way; each of these is drawn after those before it let one pass."""
    part = share / 12
    kinds = [
        *(Fault("flood", "*.get*", seconds=seconds, probability=part) for seconds in (1, 2, 4)),
        *(Fault(action, "*", probability=2 * part) for action in ("drop", "cut", "lose")),
        Fault("error", "*", code=500, message="RPC_CALL_FAIL", probability=part),
        Fault("error", "*", code=-503, message="Timeout", probability=part),
        Fault("slow", "*", seconds=1.5, probability=part),
        Fault("silence", "messages.getHistory", probability=part / 20),
        Fault("expire_references", "upload.getFile", probability=4 * part),
        Fault("truncate_file", "upload.getFile", probability=part),
        Fault("error", "messages.getHistory", code=400, message="CHANNEL_PRIVATE", probability=part / 2),
        Fault("flood", "contacts.resolveUsername", seconds=3, probability=2 * part),
    ]
    pushes = [Fault(action, "push.*", probability=0.05) for action in ("push_lose", "push_double", "push_reorder")]
    return kinds + pushes


def make_world(plan: Plan) -> World:
    """It begins in the past and lives faster, so that it never gets ahead of the real time."""
    now = datetime.now(UTC) - plan.lived
    world = build_world(seed=plan.seed, channels=plan.channels, posts=plan.posts, readers=3, now=now, ids=plan.ids)
    for channel in world.channels.values():
        for message in channel.messages.values():
            file = message.file
            if file is not None and message.date < now - FILES_OF:
                message.file = None  # tens of thousands of downloads would be most of the run
            elif file is not None:
                # Pictures take longer to draw than all the rest; those of the living world are real ones.
                file.draw, file.length = partial(bytes.__mul__, b"file %d " % file.id, 60), None
    return world


@dataclass
class Engines:
    """PostgreSQL and Valkey of this run. They come back at the same address."""

    folder: DataFolder
    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey

    async def restart(self, name: str, with_signal: signal.Signals) -> None:
        engine: Any = self.postgres if name == "postgres" else self.valkey
        url = engine.url
        os.kill(engine.pid, with_signal)
        await engine.wait()
        async with asyncio.timeout(ENGINE_SECONDS):
            while True:
                try:
                    await engine.start()
                except Fatal:  # what the killed one left is not gone yet
                    await asyncio.sleep(0.2)
                    continue
                break
        assert engine.url == url, "nobody finds an engine that comes back at another port"


@dataclass
class Slot:
    """One process, started again whenever it ends, as a service manager does."""

    name: str
    environment: dict[str, str]
    folder: Path
    command: str = "ingest"
    retired: bool = False  # when it ends now, it stays so
    starts: int = 0
    gave_up: int = 0  # ended by itself: an engine was away when it started
    process: asyncio.subprocess.Process | None = None
    running: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep(self) -> None:
        while not self.retired:
            self.starts += 1
            with (self.folder / f"{self.name}.log").open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "telegram_assistant", self.command),
                    env={**self.environment, "HOSTNAME": f"{self.name}-{self.starts}"},
                    cwd=self.folder,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=asyncio.subprocess.STDOUT,
                )
            self.running.set()
            try:
                if await self.process.wait() >= 0:
                    self.gave_up += 1
            finally:
                self.running.clear()
                with suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()
            await asyncio.sleep(0.5)

    async def kill(self) -> None:
        await self.running.wait()
        self.running.clear()
        if self.process is not None and self.process.returncode is None:
            self.process.kill()


@dataclass
class Run:
    """Everything of one run."""

    plan: Plan
    world: World
    sim: Simulator
    engines: Engines
    database: AsyncEngine
    redis: Redis
    slots: list[Slot]
    folder: Path
    random: random.Random
    tasks: list[asyncio.Future[Any]] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    figures: list[tuple[str, object]] = field(default_factory=list)
    files_due_at: float = 0.0
    stood_still_at: datetime | None = None  # when the world stopped

    @property
    def watched(self) -> list[Channel]:
        """Channels that our accounts can read."""
        return [c for c in self.world.channels.values() if not c.group and (c.members or not c.private)]

    def say(self, what: str, value: object) -> None:
        self.figures.append((what, value))

    async def rows(self, statement: str, **values: Any) -> list[Any]:
        async with self.database.connect() as connection:
            return list(await connection.execute(text(statement), values))

    async def change(self, statement: str, **values: Any) -> int:
        async with self.database.begin() as connection:
            return int((await connection.execute(text(statement), values)).rowcount)

    async def ask_for_everything(self) -> None:
        requests = Requests(self.database)
        for channel in self.watched:
            wish = f"@{channel.username.lower()}" if channel.username else f"https://t.me/+{channel.invite}"
            await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), wish)

    async def ask_for_history(self) -> None:
        """`tga backfill --all` for each channel, as soon as it was visited once."""
        while True:
            with suppress(*OUTAGE):
                await self.change(
                    "UPDATE channels SET history_from = '2013-01-01Z' WHERE requested_from > 1 AND history_from IS NULL"
                )
            await asyncio.sleep(2)

    async def kill_at_random(self) -> None:
        """The processes most often, each engine now and then, gently and not."""
        engines = [("postgres", signal.SIGINT), ("postgres", signal.SIGKILL)]
        engines += [("valkey", signal.SIGTERM), ("valkey", signal.SIGKILL)]
        hits = [*engines, *self.random.choices(engines, k=self.plan.kills // 5)]
        hits += [("ingest", signal.SIGKILL)] * max(0, self.plan.kills - len(hits))
        self.random.shuffle(hits)
        for name, with_signal in hits:
            await asyncio.sleep(self.random.uniform(*self.plan.pause))
            if name == "ingest":
                await self.random.choice(self.slots).kill()
            else:
                await self.engines.restart(name, with_signal)
            self.kills[f"{name} {with_signal.name}"] += 1

    def logged(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))


async def _start(plan: Plan, folder: Path, stack: AsyncExitStack) -> Run:
    data = DataFolder(folder / "engines")
    data.open()
    stack.callback(data.close)
    engines = Engines(data, EmbeddedPostgres(data), EmbeddedValkey(data))
    for engine in (engines.postgres, engines.valkey):
        await engine.start()
        stack.push_async_callback(engine.stop)
    database, redis = open_database(engines.postgres.url), open_redis(engines.valkey.url)
    stack.push_async_callback(database.dispose)
    stack.push_async_callback(redis.aclose)
    await migrate(database)
    world = make_world(plan)
    sim = await stack.enter_async_context(Simulator(world, faults=faults(0.15)))
    accounts = TelegramAccounts(database, Sealer(SECRET))
    for user in [user for user in world.users.values() if user.phone is not None]:
        await accounts.add(telegram_user_id=user.id, name=user.first_name, session=sim.session(user.id))
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    environment = {
        **kept,
        "TGA_DATA_DIR": str(folder / "data"),
        "TGA_SECRET_KEY": SECRET,
        "DATABASE_URL": engines.postgres.url,
        "REDIS_URL": engines.valkey.url,
        "TELEGRAM_API_ID": "1",
        "TELEGRAM_API_HASH": "hash",
        "TELEGRAM_SERVER": sim.address,
        "TELEGRAM_PACING_ENABLED": "false",
        "PARSER_SCHEDULER_INTERVAL_SEC": "10",
        "POLLING_BOUND_SEC": "20",  # nobody waits an hour for a quiet channel here
        "INGEST_LEASE_SEC": "8",
        "INGEST_HEALTH_PORT": "0",
        "PREVIEW_HOSTS": "",  # a test never reaches the real Telegram
        "MEDIA_RETRY_MAX": "20",
    }
    slots = [Slot(name, environment, folder) for name in ("one", "two")]
    return Run(plan, world, sim, engines, database, redis, slots, folder, random.Random(plan.seed))


@pytest.fixture
async def begin(folder: Path) -> AsyncIterator[Callable[[Plan], Awaitable[Run]]]:
    """Start a run; what is left of it is ended with the test."""
    async with AsyncExitStack() as stack:
        runs: list[Run] = []

        async def start(plan: Plan) -> Run:
            runs.append(await _start(plan, folder, stack))
            return runs[-1]

        yield start
        for run in runs:
            await end(run.tasks)


async def end(tasks: list[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(name="end")
def _end() -> Callable[[list[asyncio.Future[Any]]], Awaitable[None]]:
    return end


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    return Plan


@pytest.fixture
def live() -> Callable[[Run], Life]:
    """The life of a run's world: a quarter of its posts once more, and always behind the real time."""

    def make(run: Run) -> Life:
        plan = run.plan
        speed = 0.6 * plan.lived.total_seconds() / plan.seconds
        arrivals = plan.channels * plan.posts / 4
        return Life(run.world, seed=plan.seed, speed=speed, rate=arrivals / (plan.lived / timedelta(hours=1)))

    return make
