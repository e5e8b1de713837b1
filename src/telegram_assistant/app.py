"""The composition root: the one place that builds and wires (clients, engines, roles). Importing it opens nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Job, Supervisor, Task
from telegram_assistant.config import Settings
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.errors import Retry
from telegram_assistant.health import Health, health_app, listen, serve
from telegram_assistant.log import get_logger
from telegram_assistant.progress import Steps
from telegram_assistant.stores.postgres.database import check_server, open_database
from telegram_assistant.stores.postgres.migrate import migrate
from telegram_assistant.stores.redis import check_redis, open_redis

log = get_logger(__name__)


class Engine(Protocol):
    """An engine that we start ourselves."""

    name: str
    title: str

    @property
    def url(self) -> str: ...
    async def start(self) -> None: ...
    async def wait(self) -> int: ...
    async def stop(self) -> None: ...


@dataclass
class Runtime:
    """What every role is built from. The stack undoes it all in reverse order."""

    settings: Settings
    steps: Steps
    folder: DataFolder
    supervisor: Supervisor
    health: Health
    stack: AsyncExitStack
    database: AsyncEngine
    redis: Redis
    database_url: str
    redis_url: str

    async def start_task(self, name: str, job: Job, *, patience: float | None = None) -> None:
        await self.supervisor.start(name, job, patience=patience)
        self.stack.push_async_callback(self.supervisor.stop, [name])


async def run_up(settings: Settings, steps: Steps) -> None:
    """`tga up`: every role in one process, until SIGINT or SIGTERM."""
    async with AsyncExitStack() as stack:
        stopped = stack.enter_context(stop_signals())
        # The port first: a second start must fail before it touches anything.
        listener = stack.enter_context(
            listen(settings.ingest_health_host, settings.ingest_health_port, variable="INGEST_HEALTH_PORT")
        )
        supervisor = Supervisor()
        if not await first_of(_start_all(settings, steps, supervisor, stack, listener), stopped):
            return
        host, port = listener.getsockname()[:2]
        mode = "demo with a simulated Telegram" if settings.demo else "watching Telegram"
        steps.say(f"Telegram Assistant is ready ({mode}): http://{host}:{port}/   Ctrl-C stops it.")
        await first_of(supervisor.wait(), stopped)
        steps.say("Stopping …")
    steps.say("Stopped.")


async def _start_all(
    settings: Settings, steps: Steps, supervisor: Supervisor, stack: AsyncExitStack, listener: socket.socket
) -> None:
    runtime = await start_runtime(settings, steps, supervisor, stack)
    if settings.demo:
        with steps.step("Simulated Telegram"):
            await start_demo(runtime)
    with steps.step("Health page"):
        app = health_app(runtime.health)
        await runtime.start_task("health", lambda task: serve(app, listener, task))


async def start_runtime(settings: Settings, steps: Steps, supervisor: Supervisor, stack: AsyncExitStack) -> Runtime:
    """Engines (ours where none is configured), schema, clients."""
    folder = DataFolder(settings.tga_data_dir, min_free_mb=settings.tga_min_free_disk_mb)
    folder.open()
    stack.callback(folder.close)
    database_url, redis_url = await _start_engines(settings, steps, supervisor, stack, folder)

    database = open_database(database_url)
    stack.push_async_callback(database.dispose)
    with steps.step("Database schema"):
        await migrate(database)
    redis = open_redis(redis_url)
    stack.push_async_callback(redis.aclose)

    health = Health(supervisor, demo=settings.demo)
    health.engines["postgres"] = lambda: _select_one(database)
    health.engines["redis"] = redis.ping
    return Runtime(settings, steps, folder, supervisor, health, stack, database, redis, database_url, redis_url)


async def _start_engines(
    settings: Settings, steps: Steps, supervisor: Supervisor, stack: AsyncExitStack, folder: DataFolder
) -> tuple[str, str]:
    """Check what is configured before anything of ours starts, then start what is not."""
    database_url = settings.database_url and settings.database_url.get_secret_value()
    redis_url = settings.redis_url and settings.redis_url.get_secret_value()
    if database_url:
        with steps.step("PostgreSQL at DATABASE_URL"):
            await check_server(database_url)
    if redis_url:
        with steps.step("Redis at REDIS_URL"):
            await check_redis(redis_url)
    if not database_url:
        database_url = await _start_engine(EmbeddedPostgres(folder, demo=settings.demo), steps, supervisor, stack)
    if not redis_url:
        redis_url = await _start_engine(EmbeddedValkey(folder, demo=settings.demo), steps, supervisor, stack)
    return database_url, redis_url


async def _start_engine(engine: Engine, steps: Steps, supervisor: Supervisor, stack: AsyncExitStack) -> str:
    async def keep(task: Task) -> None:
        try:
            await engine.start()
            task.ready()
            raise Retry(f"{engine.title} ended by itself with code {await engine.wait()}")
        finally:
            await engine.stop()

    with steps.step(f"{engine.title} on this machine"):
        stack.push_async_callback(supervisor.stop, [engine.name])
        await supervisor.start(engine.name, keep)
    return engine.url


async def start_demo(runtime: Runtime) -> None:
    """A Telegram of our own, with a world that goes on posting; it is the same world after a restart."""


async def _select_one(database: AsyncEngine) -> None:
    async with database.connect() as connection:
        await connection.execute(text("SELECT 1"))


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, instead of an exception in the middle of something."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    try:
        yield stopped
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)


async def first_of(work: Coroutine[object, object, object], stopped: asyncio.Event) -> bool:
    """Do `work` unless we are stopped before; True when it was done. Its errors are raised."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        working.result()
        return True
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return False
