"""What every role and command stands on: engines (ours where none is configured), schema, clients.

Together with `roles.py`, which builds the roles, this is the composition root.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Job, Supervisor, Task
from telegram_assistant.bus.tracing import start_tracing
from telegram_assistant.config import Settings
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.embedded.postgres import DEMO_DATABASE, EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.freshness import Freshness
from telegram_assistant.health import Health
from telegram_assistant.log import get_logger
from telegram_assistant.names import ENGINE_PROBE
from telegram_assistant.stores.outage import is_outage
from telegram_assistant.stores.postgres.carrying import carry_over
from telegram_assistant.stores.postgres.database import check_server, open_database
from telegram_assistant.stores.postgres.migrate import migrate
from telegram_assistant.stores.redis import check_redis, open_redis
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.terminal import Steps

INHERIT_SECONDS = 1.0

log = get_logger(__name__)


def utc_now() -> datetime:
    """The clock of the running system; everything below takes one as an argument."""
    return datetime.now(UTC)


Engine: TypeAlias = EmbeddedPostgres | EmbeddedValkey


@dataclass
class Runtime:
    """What roles are built from. The stack undoes it all in reverse order."""

    settings: Settings
    steps: Steps
    folder: DataFolder
    supervisor: Supervisor
    health: Health
    stack: AsyncExitStack
    database: AsyncEngine
    redis: Redis
    running: Running
    joined: bool  # the engines belong to a `tga up` that was there before
    clock: Callable[[], datetime] = utc_now
    restart: Callable[[], None] | None = None  # starts this program anew, where it runs alone
    configured: Settings = field(init=False)  # as they were given: a demo points `settings` at its simulator
    welcome: str = ""  # where the first admin chooses a password, while there is none
    crawl_allowed: frozenset[tuple[str, int]] = frozenset()  # addresses on loopback: the demo's own pages

    def __post_init__(self) -> None:
        self.configured = self.settings

    @property
    def demo(self) -> bool:
        return self.health.demo

    @property
    def freshness(self) -> Freshness:
        """Where the parts of this process report how long ago they succeeded."""
        return self.health.freshness

    def sealer(self) -> Sealer:
        """What keeps secrets at rest: with the configured key, or with that of the data folder."""
        key = self.settings.tga_secret_key
        return Sealer(key.get_secret_value() if key else self.folder.secret("session.key"))

    async def start_task(self, name: str, job: Job, *, patience: float | None = None) -> Task:
        self.stack.push_async_callback(self.supervisor.stop, [name])
        return await self.supervisor.start(name, job, patience=patience)


async def start_runtime(settings: Settings, steps: Steps, stack: AsyncExitStack, *, join: bool = False) -> Runtime:
    """Start what is not configured. With `join` use the engines of the `tga up` that runs on this data folder."""
    start_tracing(settings.otel_exporter_otlp_endpoint, stack)
    asyncio.get_running_loop().set_exception_handler(handle_late_error)
    supervisor = Supervisor()
    folder = DataFolder(settings.tga_data_dir, min_free_mb=settings.tga_min_free_disk_mb)
    # With engines of your own nothing is started, so any number of processes may use the folder.
    shared = join and not settings.demo and bool(settings.database_url and settings.redis_url)
    running = folder.running() if join and not shared else None
    joined = running is not None
    if joined:
        # Before anything else, so that it comes last: for the case that the engines become ours.
        stack.callback(folder.close)
        stack.push_async_callback(supervisor.stop, [EmbeddedPostgres.name, EmbeddedValkey.name])
    if running is None:
        if shared:
            folder.make()
        else:
            folder.open()
            stack.callback(folder.close)
        running = await _start_engines(settings, steps, supervisor, stack, folder)
        if not settings.demo and not settings.database_url:
            await carry_over(running.database_url, DEMO_DATABASE)
        if not shared:
            folder.announce(running)

    database = open_database(running.database_url, ca_file=settings.tls_ca_file)
    stack.push_async_callback(database.dispose)
    with steps.step("Database schema"):
        await migrate(database)
    redis = open_redis(running.redis_url, ca_file=settings.tls_ca_file)
    stack.push_async_callback(redis.aclose)

    health = Health(supervisor, demo=settings.demo)
    health.engines["postgres"] = lambda: _select_one(database)
    health.engines["redis"] = lambda: _write(redis)
    health.engines["disk"] = lambda: asyncio.to_thread(folder.try_to_write)
    return Runtime(settings, steps, folder, supervisor, health, stack, database, redis, running, joined)


def handle_late_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A query that was cancelled has no more use for the error of its lost connection: a line, and no traceback."""
    error = context.get("exception")
    if is_outage(error):
        log.info("lost_after_cancel", reason=str(error))
    else:
        loop.default_exception_handler(context)


async def _start_engines(
    settings: Settings, steps: Steps, supervisor: Supervisor, stack: AsyncExitStack, folder: DataFolder
) -> Running:
    """Check what is configured before anything of ours starts, then start what is not."""
    database_url = settings.database_url and settings.database_url.get_secret_value()
    redis_url = settings.redis_url and settings.redis_url.get_secret_value()
    if database_url:
        with steps.step("PostgreSQL at DATABASE_URL"):
            await check_server(database_url, ca_file=settings.tls_ca_file)
    if redis_url:
        with steps.step("Redis at REDIS_URL"):
            await check_redis(redis_url, ca_file=settings.tls_ca_file)
    if not database_url:
        database_url = await start_engine(EmbeddedPostgres(folder, demo=settings.demo), steps, supervisor, stack)
    if not redis_url:
        redis_url = await start_engine(EmbeddedValkey(folder, demo=settings.demo), steps, supervisor, stack)
    return Running(database_url, redis_url)


async def inherit_engines(runtime: Runtime, task: Task) -> None:
    """A supervised job of those who joined: when the process that ran the engines is gone, run them in its place.

    At the same address, so that every open connection of this process and of others finds them again.
    """
    task.ready()
    while not runtime.folder.inherit():
        task.progress()
        await asyncio.sleep(INHERIT_SECONDS)
    log.warning("engines_inherited", reason="the process that ran them is gone")
    settings, running = runtime.settings, runtime.running
    engines: list[tuple[str, Engine]] = []
    if not settings.database_url:
        port = urlsplit(running.database_url).port or 0
        engines.append((running.database_url, EmbeddedPostgres(runtime.folder, demo=runtime.demo, port=port)))
    if not settings.redis_url:
        port = urlsplit(running.redis_url).port or 0
        engines.append((running.redis_url, EmbeddedValkey(runtime.folder, demo=runtime.demo, port=port)))
    for url, engine in engines:
        await runtime.supervisor.start(engine.name, _keeper(engine))
        if engine.url != url:
            raise Fatal(f"{engine.title} had to move, because another program took its port: start again")
    runtime.folder.announce(replace(running, telegram=None))
    while True:
        task.progress()
        await asyncio.sleep(INHERIT_SECONDS)


async def _start_or_again(engine: Engine, task: Task) -> None:
    """What keeps an engine from its first start is for a person to mend; later it may be the engine's own remains."""
    try:
        await engine.start()
    except Fatal as exc:
        if not task.started.is_set():
            raise
        raise Retry(str(exc)) from exc


async def start_engine(engine: Engine, steps: Steps, supervisor: Supervisor, stack: AsyncExitStack) -> str:
    with steps.step(f"{engine.title} on this machine"):
        stack.push_async_callback(supervisor.stop, [engine.name])
        await supervisor.start(engine.name, _keeper(engine))
    return engine.url


def _keeper(engine: Engine) -> Job:
    async def keep(task: Task) -> None:
        try:
            await _start_or_again(engine, task)
            task.ready()
            raise Retry(f"{engine.title} ended by itself with code {await engine.wait()}")
        finally:
            await engine.stop()

    return keep


async def _select_one(database: AsyncEngine) -> None:
    async with database.connect() as connection:
        if (await connection.execute(text("SHOW transaction_read_only"))).scalar_one() == "on":
            raise Retry("it takes no writes: DATABASE_URL must lead to the primary, not to a replica")


async def _write(redis: Redis) -> None:
    """One that is full or read-only answers a ping as if all were well."""
    await redis.set(ENGINE_PROBE, "1", ex=60)
