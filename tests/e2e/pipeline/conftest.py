"""An installation that watches a simulated Telegram as the demo does, with its own pages to read, as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import uvicorn
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.post import post_id
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.wiring.demo import PAGES_KEY
from telegram_simulator.model import Channel, File, Kind, Message, User
from telegram_simulator.pictures import Picture
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.pipeline_state import on_the_way

READER = 1001
TGA = (sys.executable, "-m", "telegram_assistant")
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")
HOST = "127.0.0.1"


async def until(true: Callable[[], Awaitable[Any]], what: str, seconds: float = 600.0) -> Any:
    """Wait until something is true, and give it; fail with `what` when it takes too long."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (found := await true()):
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(0.1)
    return found


def card(number: int, *lines: str) -> File:
    """A photo with these words on it."""
    picture = Picture("card", lines, number, 640, 360, 28_000)
    return File(8_000_000 + number, number + 1, Kind.PHOTO, "image/jpeg", picture, width=640, height=360)


@dataclass
class Town:
    """A world made by hand, and the simulator that serves it."""

    world: World
    sim: Simulator
    link_host: str

    def open(self, username: str) -> Channel:
        number = 100 * (len(self.world.channels) + 1)
        created = datetime.now(UTC) - timedelta(days=90)
        channel = Channel(number, number + 1, username.title(), username, created, members={READER})
        return self.world.add_channel(channel)

    def say(self, channel: Channel, words: str, **fields: Any) -> UUID:
        number = channel.newest_id + 1
        self.world.post(channel, Message(number, datetime.now(UTC), words, **fields))
        return post_id(channel.id, number)


@dataclass
class Site:
    """Pages on loopback, by path."""

    pages: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def page(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        html = self.pages.get(request.url.path)
        return PlainTextResponse("", 404) if html is None else HTMLResponse(html)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        app = Starlette(routes=[Route("/{path:path}", self.page)])
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        with socket.socket() as listener:
            listener.bind((HOST, 0))
            self.port = listener.getsockname()[1]
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield
            finally:
                server.should_exit = server.force_exit = True
                await serving


@dataclass
class Program:
    """A `tga` that runs as a process of its own."""

    process: asyncio.subprocess.Process
    log: Path

    async def ready(self) -> None:
        async def said() -> bool:
            if self.process.returncode is not None:
                raise AssertionError(self.log.read_text())
            return "is ready" in self.log.read_text()

        await until(said, f"{self.log} says that it is ready")

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        """As Ctrl-C or a service manager does."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(300):
            assert await self.process.wait() == 0, self.log.read_text()


@dataclass
class House:
    """Processes on one data folder, and the tables that they fill."""

    folder: Path
    environment: dict[str, str]
    database: AsyncEngine
    redis: Redis
    programs: list[Program] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    async def start(self, command: str, **settings: str) -> Program:
        log = self.folder / f"{command}-{len(self.programs)}.log"
        with log.open("wb") as output:
            program = Program(await self._process([command], output, **settings), log)
        self.programs.append(program)
        await program.ready()
        return program

    async def tga(self, *command: str) -> str:
        """Run a command to its end; what it printed."""
        process = await self._process(command, asyncio.subprocess.PIPE)
        async with asyncio.timeout(300):
            printed, _ = await process.communicate()
        assert process.returncode == 0, printed.decode()
        return printed.decode()

    async def trace(self, post: UUID | str) -> dict[str, dict[str, Any]]:
        """What `tga trace` tells of a post, by stage."""
        steps = json.loads(await self.tga("trace", str(post), "--json"))
        return {step["stage"]: step for step in steps}

    async def watch(self, *channels: Channel) -> None:
        for channel in channels:
            await Requests(self.database).add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), f"@{channel.username}")

    async def rows(self, statement: str, **values: Any) -> list[Any]:
        async with self.database.connect() as connection:
            return list(await connection.execute(text(statement), values))

    async def calm(self) -> None:
        """Wait until nothing is on its way."""
        left: dict[str, int] = {}

        async def nothing() -> bool:
            nonlocal left
            left = await on_the_way(self.database, self.redis)
            return not left

        try:
            await until(nothing, "nothing is on its way")
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {left}") from exc

    async def done(self, stage: str) -> dict[UUID, str]:
        """Posts that are through a stage, each with the content that it dealt with."""
        statement = "SELECT post_id, content_hash FROM post_steps WHERE stage = :stage AND outcome = 'done'"
        return {row.post_id: row.content_hash for row in await self.rows(statement, stage=stage)}

    async def _process(self, command: Sequence[str], output: Any, **settings: str) -> asyncio.subprocess.Process:
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        return await asyncio.create_subprocess_exec(
            *(*TGA, *command),
            env={**kept, **self.environment, **settings},
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    async with made.open():
        yield made


@pytest.fixture
async def town(site: Site) -> AsyncIterator[Town]:
    world = World()
    world.add_user(User(READER, 501, "Ann", phone="79990000001"))
    async with Simulator(world) as sim:
        yield Town(world, sim, site.url)


@pytest.fixture
async def house(folder: Path, database: AsyncEngine, redis: Redis) -> AsyncIterator[House]:
    environment = {
        "TGA_DATA_DIR": str(folder / "data"),
        "TGA_SECRET_KEY": "of this test",
        "TELEGRAM_PACING_ENABLED": "false",
        "PARSER_SCHEDULER_INTERVAL_SEC": "1",
        "INGEST_HEALTH_PORT": "0",
        "PREVIEW_HOSTS": "",  # a test never reaches the real Telegram
        "WORKER_HEALTH_PORT": "0",
        "API_PORT": "0",
        "INGEST_LEASE_SEC": "4",
        "WORKER_LEASE_SEC": "2",
        "COLUMNS": "300",
    }
    made = House(folder, environment, database, redis)
    yield made
    for program in made.programs:
        if program.process.returncode is None:
            await program.kill()


@pytest.fixture
async def demo(house: House, town: Town, site: Site, database_url: str, redis_url: str) -> AsyncIterator[House]:
    """The same, joined to a demo that the test itself is: so the pages of its site may be read, and no others."""
    key = house.folder / "key.pem"
    key.write_text(town.sim.public_key_pem, encoding="ascii")
    telegram = {
        "telegram_api_id": "1",
        "telegram_api_hash": "demo",
        "telegram_session": town.sim.session(READER),
        "telegram_server": town.sim.address,
        "telegram_rsa_key": str(key),
        PAGES_KEY: f"{HOST}:{site.port}",
    }
    held = DataFolder(house.data)
    held.open()
    held.announce(Running(database_url, redis_url, telegram))
    yield house
    held.close()


@pytest.fixture
async def alone(house: House, town: Town, database_url: str, redis_url: str) -> House:
    """The same, with a Telegram account and engines of its own, for `tga up`."""
    key = house.folder / "key.pem"
    key.write_text(town.sim.public_key_pem, encoding="ascii")
    house.environment |= {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "TELEGRAM_API_ID": "1",
        "TELEGRAM_API_HASH": "hash",
        "TELEGRAM_SESSION": town.sim.session(READER),
        "TELEGRAM_SERVER": town.sim.address,
        "TELEGRAM_RSA_KEY": str(key),
    }
    return house
