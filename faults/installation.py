"""An installation that faults are put into: real processes, real engines, a simulated Telegram, a model server."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.load_roles import READY_SECONDS, Slot, environment
from faults import s3
from faults.gate import Gate
from faults.hurry import clock_of_children
from faults.models import SIZE, ModelServer, model_server
from faults.s3 import object_store
from faults.telegram import MANY, Telegram, simulated
from telegram_assistant.access.people import People, system_caller
from telegram_assistant.domain.access import Role
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.process import free_port
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.database import open_database, raw_transaction
from telegram_assistant.stores.postgres.migrate import migrate
from telegram_assistant.stores.redis import open_redis
from telegram_assistant.stores.sealed import Sealer

SECRET = "of the faults"  # noqa: S105 - of an invented Telegram
ACCOUNTS = 3  # at least
PER_ACCOUNT = 500  # channels that Telegram lets an account join
ROOM = 6 * 2**30
ANSWER_SECONDS = 10.0  # that a health page has
PORTS = {"up": "INGEST_HEALTH_PORT", "ingest": "INGEST_HEALTH_PORT", "worker": "WORKER_HEALTH_PORT", "api": "API_PORT"}
LAYOUTS: dict[str, tuple[str, ...]] = {"one": ("up",), "apart": ("ingest", "worker", "api"), "s3": ("up",)}

CAPTURED = "SELECT count(*) AS posts FROM posts WHERE deleted_at IS NULL"
UNINDEXED = """
SELECT count(*) AS posts FROM posts p WHERE p.deleted_at IS NULL AND NOT EXISTS (
  SELECT 1 FROM post_steps s WHERE s.post_id = p.id AND s.stage = 'indexing' AND s.outcome = 'done')
"""

# Reading thousands of channels for the first time takes the accounts half an hour: these were read a while ago, are
# quiet, and are looked at once an hour.
ESTABLISHED = """
UPDATE channels SET last_success_at = now(), last_parsed_at = now(),
next_visit_at = now() + random() * interval '1 hour', promised_at = now() + interval '90 minutes'
"""

MIGRATING = asyncio.Lock()  # Alembic keeps what it does in a global variable

Layout = Literal["one", "apart", "s3"]  # s3: one process, and files in an object store


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large an installation is, and how much is posted in it."""

    channels: int = 60
    a_second: float = 0.2
    slack: float = 1.0  # by which a busy machine may notice later
    recovery: float = 600.0  # seconds that it has to be well again after a fault
    settings: tuple[tuple[str, str], ...] = ()  # besides the defaults
    hurry: float = 1.0  # times that the clock runs faster; starting takes the machine as long as ever

    @property
    def accounts(self) -> int:
        return max(ACCOUNTS, math.ceil(self.channels / PER_ACCOUNT))

    @property
    def ready_seconds(self) -> float:
        """For the first visits: an account reads a page a second."""
        return self.hurry * 240.0 + 2.0 * self.channels / self.accounts


@dataclass
class Engines:
    """PostgreSQL and Valkey under a service manager: whichever ends is started again after a second."""

    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey
    held: set[str] = field(default_factory=set)  # these stay down
    _keeping: list[asyncio.Future[None]] = field(default_factory=list)

    async def start(self) -> None:
        for engine in (self.postgres, self.valkey):
            await engine.start()
            self._keeping.append(asyncio.ensure_future(self._keep(engine)))

    async def stop(self) -> None:
        for keeping in self._keeping:
            keeping.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        for engine in (self.valkey, self.postgres):
            for pid in filter(None, [engine.pid]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            await engine.stop()

    def pids(self, name: str) -> list[int]:
        """The server, and the processes that it has for its connections."""
        pid = self.postgres.pid if name == "postgres" else self.valkey.pid
        if pid is None:
            raise RuntimeError(f"{name} does not run")
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]

    async def _keep(self, engine: EmbeddedPostgres | EmbeddedValkey) -> None:
        while True:
            await engine.wait()
            await asyncio.sleep(1)
            while engine.name in self.held:  # noqa: ASYNC110 - a fault takes it out of the set when it is over
                await asyncio.sleep(0.2)
            with suppress(Fatal, Retry):  # what a killed one left is not gone yet
                await engine.start()


@dataclass
class Installation:
    """Everything of one lane. Faults reach into it, the harness only asks it."""

    size: Size
    layout: Layout
    folder: Path
    engines: Engines
    database: AsyncEngine
    redis: Redis
    telegram: Telegram
    models: ModelServer
    model_gate: Gate
    environment: dict[str, str]
    slots: list[Slot]
    http: httpx.AsyncClient
    file_gate: Gate | None = None  # of the object store
    accounts: list[str] = field(default_factory=list)  # their ids
    victim: int = 0  # the channel that a fault was put into last

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def slot(self, *roles: str) -> Slot:
        """The process that has one of these roles."""
        return next(slot for slot in self.slots if slot.command in roles or slot.command == "up")

    def pid(self, *roles: str) -> int:
        process = self.slot(*roles).process
        if process is None:
            raise RuntimeError(f"{roles} does not run")
        return process.pid

    async def rows(self, statement: str, **values: Any) -> list[Any]:
        async with self.database.connect() as connection:
            return list(await connection.execute(text(statement), values))

    async def change(self, statement: str, **values: Any) -> int:
        async with self.database.begin() as connection:
            return int((await connection.execute(text(statement), values)).rowcount)

    async def indexed(self, seconds: float = 600.0) -> None:
        """Wait until every post that is stored is indexed."""
        async with asyncio.timeout(seconds):
            while not await self._all_indexed():  # noqa: ASYNC110 - the database does not tell
                await asyncio.sleep(1)

    async def _all_indexed(self) -> bool:
        captured, unindexed = (await self.rows(CAPTURED))[0].posts, (await self.rows(UNINDEXED))[0].posts
        return captured >= self.telegram.count and not unindexed

    async def promise(self) -> float:
        """Within how many seconds after the last time the victim was to be read again."""
        statement = "SELECT promised_at - coalesce(last_success_at, created_at) AS promise FROM channels WHERE id = :id"
        return float((await self.rows(statement, id=self.victim))[0].promise.total_seconds())

    async def details(self, slot: Slot) -> dict[str, Any]:
        """What a process says of itself; that it says nothing is an answer too."""
        port = slot.environment[PORTS[slot.command]]
        try:
            answer = await self.http.get(f"http://127.0.0.1:{port}/health/details")
            found: dict[str, Any] = answer.json()
        except (httpx.HTTPError, ValueError) as exc:
            why = type(exc).__name__
            return {"status": "unknown", "troubles": [f"tga {slot.command}: its health page does not answer ({why})"]}
        return found

    async def health(self) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(self.details(slot) for slot in self.slots)))


def _settings(folder: Path, database_url: str, redis_url: str, telegram: Telegram, models: Gate) -> dict[str, str]:
    """Defaults, but for where things are and that no local model is loaded."""
    return environment(
        LOG_LEVEL="INFO",
        TGA_DATA_DIR=str(folder / "data"),
        PREVIEW_HOSTS="",  # a trial never reaches the real Telegram
        TGA_SECRET_KEY=SECRET,
        TGA_MIN_FREE_DISK_MB="0",
        DATABASE_URL=database_url,
        REDIS_URL=redis_url,
        TELEGRAM_API_ID="1",
        TELEGRAM_API_HASH="faults",
        TELEGRAM_SERVER=telegram.address,
        AI_TAG_PROVIDER="openai",
        AI_EMBED_PROVIDER="openai",
        AI_ANSWER_PROVIDER="openai",
        OPENAI_BASE_URL=f"http://127.0.0.1:{models.port}/v1",
        OPENAI_EMBEDDING_SIZE=str(SIZE),
        **{variable: str(free_port()) for variable in ("INGEST_HEALTH_PORT", "WORKER_HEALTH_PORT", "API_PORT")},
    )


async def _prepare(database: AsyncEngine, telegram: Telegram) -> list[str]:
    """Accounts of some age, and the channels as if their usernames had been resolved: that takes Telegram days."""
    async with MIGRATING:
        await migrate(database)
    store = TelegramAccounts(database, Sealer(SECRET))
    ids: dict[int, str] = {}
    for user in telegram.world.users.values():
        session = telegram.session(user.id)
        ids[user.id] = (await store.add(telegram_user_id=user.id, name=user.first_name, session=session)).id
    async with raw_transaction(database) as connection:
        await connection.execute("UPDATE telegram_accounts SET created_at = now() - interval '30 days'")
        await connection.executemany(
            "INSERT INTO channels (id, title, username, requested_from, access_hash)"
            " VALUES ($1, $2, $3, 1, jsonb_build_object($4::text, $5::bigint))",
            [(one.id, one.title, one.username, ids[min(one.members)], one.access_hash) for one in telegram.channels],
        )
        if len(telegram.channels) > MANY:
            await connection.execute(ESTABLISHED)
    return list(ids.values())


@asynccontextmanager
async def installed(size: Size, layout: Layout, where: Path | None = None) -> AsyncIterator[Installation]:
    """Started, and ended whatever becomes of it."""
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tga-faults-", dir=where or _memory()))
        folder.chmod(0o711)  # under root PostgreSQL runs as another user, and must pass through
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        lane = await _start(size, layout, folder, stack)
        stack.push_async_callback(stop_roles, lane.slots)
        await asyncio.gather(*(slot.start() for slot in lane.slots))
        if size.channels <= MANY:
            lane.telegram.posting.set()
        yield lane


def _memory() -> Path | None:
    """Memory that looks like a disk: the engines sync a lot, and several installations share one."""
    shm = Path("/dev/shm")  # noqa: S108 - each installation makes a folder of its own in it
    if shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > ROOM:
        return shm
    return None


async def stop_roles(slots: Sequence[Slot]) -> None:
    for slot in slots:
        if slot.process is not None and slot.process.returncode is None:
            with suppress(ProcessLookupError):
                slot.process.send_signal(signal.SIGCONT)
    await asyncio.gather(*(slot.stop() for slot in slots))


async def _start(size: Size, layout: Layout, folder: Path, stack: AsyncExitStack) -> Installation:
    clock = clock_of_children()
    home = DataFolder(folder / "engines")
    home.open()
    stack.callback(home.close)
    engines = Engines(EmbeddedPostgres(home), EmbeddedValkey(home))
    stack.push_async_callback(engines.stop)
    await engines.start()
    database, redis = open_database(engines.postgres.url), open_redis(engines.valkey.url)
    stack.push_async_callback(database.dispose)
    stack.push_async_callback(redis.aclose)
    telegram = await stack.enter_async_context(simulated(size.channels, size.accounts, size.a_second))
    models, gate = await stack.enter_async_context(model_server())
    settings = _settings(folder, engines.postgres.url, engines.valkey.url, telegram, gate) | dict(size.settings) | clock
    file_gate = await stack.enter_async_context(object_store()) if layout == "s3" else None
    settings |= s3.settings(file_gate) if file_gate else {}
    (folder / "data").mkdir()
    return Installation(
        size=size,
        layout=layout,
        folder=folder,
        engines=engines,
        database=database,
        redis=redis,
        telegram=telegram,
        models=models,
        model_gate=gate,
        file_gate=file_gate,
        environment=settings,
        slots=[
            Slot(role, role, settings, folder, ready_seconds=READY_SECONDS * size.hurry) for role in LAYOUTS[layout]
        ],
        accounts=await _prepare(database, telegram),
        http=await stack.enter_async_context(
            httpx.AsyncClient(
                trust_env=False,
                timeout=ANSWER_SECONDS * size.hurry,
                limits=httpx.Limits(max_keepalive_connections=0),  # as who looks seldom: each time anew
                headers={"Authorization": f"Bearer {await _key(database)}"},  # the API tells only admins
            )
        ),
    )


async def _key(database: AsyncEngine) -> str:
    people = People(database, lambda: datetime.now(UTC))
    tenant = await people.tenant("system")
    if tenant is None:
        raise RuntimeError("the system has a tenant")
    caller = system_caller(tenant)
    user = (await people.invite(caller, name="Faults", role=Role.ADMIN)).user
    return (await people.create_key(caller, name="faults", role=Role.ADMIN, user_id=user.id)).token
