"""The whole of capture against a simulated Telegram: inside the test, or as the processes that people run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from redis.asyncio import Redis
from rich.console import Console
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.streams import FIELD, decode
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.channel import parse_ref
from telegram_assistant.domain.events import EVENTS, Event
from telegram_assistant.domain.ledger import LedgerState
from telegram_assistant.names import SCHEDULER_LAST_TICK, stream
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.channels import Channel as ChannelRow
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring.ingest import start_ingest
from telegram_assistant.wiring.runtime import Runtime, start_runtime
from telegram_simulator.model import Channel, File, Ids, Kind, Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.telethon_memory import forgotten_after

READER, OTHER, THIRD = 1001, 1002, 1003
HOSTS = ("127.0.0.2", "127.0.0.3")  # a process that comes by another one has another address to Telegram
TGA = [sys.executable, "-m", "telegram_assistant"]


async def until(true: Callable[[], Any], what: str, seconds: float = 600.0) -> Any:
    """Wait until something is true, and give it; fail with `what` when it takes too long."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        found = true()
        found = await found if isawaitable(found) else found
        if found:
            return found
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(0.05)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def photo(number: int, data: bytes | None = None) -> File:
    made = b"\xff\xd8picture %07d" % number * 50 if data is None else data
    return File(7_000_000 + number, -number - 1, Kind.PHOTO, "image/jpeg", lambda: made, width=90, height=60)


@dataclass
class Town:
    """A world made by hand, and the simulator that serves it."""

    world: World
    sim: Simulator

    def open(
        self, username: str | None, posts: int = 0, *, over: timedelta = timedelta(hours=12), **fields: Any
    ) -> Channel:
        """A channel, with posts spread evenly over the time before now."""
        number = 100 * (len(self.world.channels) + 1)
        made = Channel(number, number + 1, (username or "Club").title(), username, now() - timedelta(days=90), **fields)
        self.world.add_channel(made)
        for index in range(posts):
            self.say(made, at=now() - over * (posts - index) / (posts + 1))
        return made

    def say(self, channel: Channel, words: str | None = None, *, at: datetime | None = None, **fields: Any) -> Message:
        number = self.world.next_id(channel)
        written = f"Post {number} of {channel.title}" if words is None else words
        return self.world.post(channel, Message(number, at or now(), written, **fields))

    def album(
        self, channel: Channel, items: int, *, at: datetime | None = None, group: int | None = None
    ) -> list[Message]:
        """Items of a new album, or further ones of a group."""
        group = group or 5_000_000 + self.world.next_id(channel)
        return [
            self.say(channel, "" if n else "An album", at=at, grouped_id=group, file=photo(self.world.next_id(channel)))
            for n in range(items)
        ]

    def asked(self, method: str, channel: Channel) -> list[str]:
        """The arguments of requests about a channel that were answered, in short."""
        return [
            call.args
            for call in self.sim.rpc_log
            if call.method == method and call.outcome == "ok" and f"={channel.id} " in f"{call.args} "
        ]


@dataclass
class Store:
    """What was captured, read back."""

    database: AsyncEngine
    redis: Redis

    until = staticmethod(until)

    async def watch(self, *channels: Channel) -> None:
        """Ask for channels, as `tga channels add` does."""
        for channel in channels:
            shown = f"@{channel.username}" if channel.username else f"https://t.me/+{channel.invite}"
            await Requests(self.database).add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), str(parse_ref(shown)))

    async def log_in(self, sim: Simulator, *users: int) -> None:
        """Accounts as `tga login` stores them."""
        accounts = TelegramAccounts(self.database, Sealer("of this test"))
        for user in users:
            name = sim.world.users[user].first_name
            await accounts.add(telegram_user_id=user, name=name, session=sim.session(user))

    async def captured(self, *channels: Channel) -> None:
        """Wait until the ledger has no holes and the posts equal the truth."""
        for channel in channels:
            await until(partial(self.whole, channel), f"all of {channel.title}")

    async def captured_text(self, channel: Channel, message_id: int, words: str | None) -> None:
        """Wait until one post says this, or with None until it is gone."""

        async def says() -> bool:
            return (await self.texts(channel)).get(message_id) == words

        await until(says, f"post {message_id} of {channel.title} says {words!r}")

    async def published(self) -> None:
        """Wait until nothing waits in the outbox."""

        async def nothing() -> bool:
            return not await self.rows("SELECT 1 FROM outbox")

        await until(nothing, "everything is published")

    async def ticks(self, count: int) -> None:
        """Wait until so many further ticks are over."""
        for _ in range(count):
            before = await self.redis.get(SCHEDULER_LAST_TICK)

            async def another(before: Any = before) -> bool:
                return bool(await self.redis.get(SCHEDULER_LAST_TICK) != before)

            await until(another, "another tick")

    async def rows(self, statement: str, **values: Any) -> list[Any]:
        async with self.database.connect() as connection:
            return list(await connection.execute(text(statement), values))

    async def change(self, statement: str, **values: Any) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(statement), values)

    async def texts(self, channel: Channel) -> dict[int, str]:
        """The posts that are there, deleted ones left out."""
        found = await self.rows(
            "SELECT message_id, text FROM posts WHERE channel_id = :id AND deleted_at IS NULL", id=channel.id
        )
        return {row.message_id: row.text for row in found}

    async def row(self, channel: Channel) -> ChannelRow | None:
        return await Channels(self.database).get(channel.id)

    async def ledger(self, channel: Channel) -> LedgerState:
        return await Channels(self.database).ledger(channel.id)

    async def whole(self, channel: Channel) -> bool:
        row = await self.row(channel)
        if row is None or row.last_success_at is None or (await self.ledger(channel)).unknown:
            return False
        return await self.texts(channel) == {message.id: message.text for message in channel.messages.values()}

    async def events(self, event: str) -> list[Any]:
        """Everything that was published."""
        entries: Any = await self.redis.xrange(stream(event))
        found: list[Event] = [one for _, entry in entries for one in decode(EVENTS[event], entry[FIELD])]
        return found


@dataclass
class Program:
    """A `tga` that runs as a process of its own."""

    process: asyncio.subprocess.Process
    log: Path
    address: str = ""

    async def ready(self) -> None:
        await until(self._address, f"{self.log} says that it is ready")

    def _address(self) -> str:
        for line in self.log.read_text().splitlines():
            if "is ready" in line:
                self.address = line.partition("http://")[2].split("/")[0]
        if self.process.returncode is not None and not self.address:
            raise AssertionError(self.log.read_text())
        return self.address

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """As Ctrl-C or a service manager does."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(300):
            return await self.process.wait()

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=f"http://{self.address}", timeout=120) as client:
            return await client.get(path)

    async def details(self) -> Any:
        return (await self.get("/health/details")).json()

    async def metric(self, sample: str) -> float:
        lines = (await self.get("/metrics")).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample))


@dataclass
class Machine:
    """Starts the processes of one installation."""

    environment: dict[str, str]
    folder: Path
    programs: list[Program] = field(default_factory=list)

    async def start(self, command: str = "ingest", **settings: object) -> Program:
        """With the health page up and everything running."""
        log = self.folder / f"{command}-{len(self.programs)}.log"
        program = Program(await self._process([command], settings, log), log)
        self.programs.append(program)
        await program.ready()
        return program

    async def tga(self, *command: str, code: int = 0, **settings: object) -> str:
        """Run a command to its end; what it printed."""
        process = await self._process(command, settings)
        async with asyncio.timeout(300):
            printed, _ = await process.communicate()
        assert process.returncode == code, printed.decode()
        return printed.decode()

    async def json(self, *command: str) -> Any:
        return json.loads(await self.tga(*command, "--json"))

    async def _process(
        self, command: Sequence[str], settings: Mapping[str, object], log: Path | None = None
    ) -> asyncio.subprocess.Process:
        changed = {name.upper(): str(value) for name, value in settings.items()}
        output = log.open("wb") if log is not None else None
        try:
            return await asyncio.create_subprocess_exec(
                *(*TGA, *command),
                env={**self.environment, **changed},
                cwd=self.folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output or asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        finally:
            if output is not None:
                output.close()

    async def stop(self) -> None:
        for program in self.programs:
            if program.process.returncode is None:
                await program.kill()


@dataclass
class Capture:
    """Capture that runs in the test itself."""

    environment: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    stacks: list[AsyncExitStack] = field(default_factory=list)

    async def start(self, *, clock: Callable[[], datetime] | None = None, **settings: object) -> Runtime:
        for name, value in {**self.environment, **settings}.items():
            self.monkeypatch.setenv(name.upper(), str(value))
        stack = AsyncExitStack()
        self.stacks.append(stack)
        runtime = await start_runtime(Settings(), Steps(Console(quiet=True)), stack)
        runtime.clock = clock or runtime.clock
        await start_ingest(runtime)
        return runtime

    async def stop(self) -> None:
        while self.stacks:
            await self.stacks.pop().aclose()


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Neither a developer's settings nor Telethon's memory of another server reach a test."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    with forgotten_after():
        yield


@pytest.fixture
def ids() -> Ids:
    """How the town numbers its messages; a test that wants both names it in its parameters."""
    return Ids.DENSE


@pytest.fixture
async def town(ids: Ids) -> AsyncIterator[Town]:
    """Three users and no channels yet. A request that the simulator did not know fails the test."""
    world = World(ids=ids)
    world.add_user(User(READER, 501, "Ann", phone="79990000001"))
    world.add_user(User(OTHER, 502, "Bob", phone="79990000002"))
    world.add_user(User(THIRD, 503, "Cid", phone="79990000003"))
    async with Simulator(world, also_at=HOSTS) as sim:
        yield Town(world, sim)
    assert sim.unhandled == []


@pytest.fixture
def store(database: AsyncEngine, redis: Redis) -> Store:
    return Store(database, redis)


@pytest.fixture
def environment(town: Town, database_url: str, redis_url: str, folder: Path) -> dict[str, str]:
    """The settings of an installation that watches the simulated Telegram, as variables."""
    key = folder / "key.pem"
    key.write_text(town.sim.public_key_pem, encoding="ascii")
    return {
        "TGA_DATA_DIR": str(folder / "data"),
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "TELEGRAM_API_ID": "1",
        "TELEGRAM_API_HASH": "hash",
        "TELEGRAM_SESSION": town.sim.session(READER),
        "TELEGRAM_SERVER": town.sim.address,
        "TELEGRAM_RSA_KEY": str(key),
        "TELEGRAM_PACING_ENABLED": "false",
        "PARSER_SCHEDULER_INTERVAL_SEC": "1",
        "INGEST_HEALTH_PORT": "0",
        "PREVIEW_HOSTS": "",  # a test never reaches the real Telegram
        "INGEST_LEASE_SEC": "4",
        "TGA_SECRET_KEY": "of this test",
    }


@pytest.fixture
async def capture(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Capture]:
    made = Capture(environment, monkeypatch)
    yield made
    await made.stop()


@pytest.fixture
async def machine(environment: dict[str, str], folder: Path) -> AsyncIterator[Machine]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    made = Machine({**kept, **environment, "COLUMNS": "300", "LOG_LEVEL": "INFO"}, folder)
    yield made
    await made.stop()


@pytest.fixture
def make_photo() -> Callable[..., File]:
    return photo
