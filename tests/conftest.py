"""Real engines for every test: PostgreSQL and Valkey once per test process, a fresh database and key space per test."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
import structlog
from hypothesis import settings
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.migrate import migrate
from telegram_assistant.stores.redis import open_redis

# The same examples in each run: a test that is red says something of the change. `make fuzz` draws new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Tracebacks as the product writes them: structlog's own show local variables, and cost 0.16 s of CPU each.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

TEMPLATE = "tga_template"
ROOM = 4 * 2**30


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays to the end, so the garbage collector need not walk it, then or later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole systems first, and dealt out: each test process gets a share of them, then of the short tests.

    xdist cuts the list into one part for each process; who has finished takes from the end of another's part.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    whole = [item for item in items if item.get_closest_marker("e2e") or item.get_closest_marker("browser")]
    whole.sort(key=lambda item: -_limit(item))
    chosen = set(whole)
    short = [item for item in items if item not in chosen]
    parts: list[pytest.Item] = []
    for number in range(workers):
        parts += whole[number::workers]
        room = max(0, len(items) * (number + 1) // workers - len(parts))
        parts += short[:room]
        del short[:room]
    items[:] = parts + short


def _limit(item: pytest.Item) -> float:
    """Seconds after which it counts as hung: who needs more than usual takes long."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


@dataclass(frozen=True)
class Engines:
    """Addresses of the engines of this test process."""

    postgres: str  # address without a database
    redis: str


def memory() -> Path | None:
    """Memory that looks like a disk: the engines sync a lot, and disks of test machines are slow."""
    shm = Path("/dev/shm")  # noqa: S108 - each test makes a folder of its own in it
    if shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > ROOM:
        return shm
    return None


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may enter (pytest's tmp_path is private): PostgreSQL runs as nobody under root."""
    path = Path(tempfile.mkdtemp(prefix="tga-test-", dir=memory()))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    path = Path(tempfile.mkdtemp(prefix="tga-engines-", dir=memory()))
    path.chmod(0o711)
    data = DataFolder(path)
    data.open()
    # The engines outlive every test's event loop, so they get one of their own, driven only to start and stop.
    with asyncio.Runner() as runner:
        postgres, valkey = EmbeddedPostgres(data), EmbeddedValkey(data)
        runner.run(postgres.start())
        runner.run(valkey.start())
        address = postgres.url.rpartition("/")[0]
        runner.run(_forget_durability(address))
        runner.run(_make_template(address))
        yield Engines(address, valkey.url)
        runner.run(valkey.stop())
        runner.run(postgres.stop())
    data.close()
    shutil.rmtree(path, ignore_errors=True)


async def _forget_durability(address: str) -> None:
    """No test pulls the plug of this server, and not every machine has memory to put its files in."""
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        await _as_admin(address, f"ALTER SYSTEM SET {setting} = off")
    await _as_admin(address, "SELECT pg_reload_conf()")


async def _make_template(address: str) -> None:
    await _as_admin(address, f"CREATE DATABASE {TEMPLATE}")
    engine = open_database(f"{address}/{TEMPLATE}")
    await migrate(engine)
    await engine.dispose()


async def _as_admin(address: str, statement: str) -> None:
    connection = await asyncpg.connect(f"{address}/postgres")
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
async def empty_database_url(engines: Engines) -> AsyncIterator[str]:
    """A database without any table."""
    name = f"t_{uuid4().hex}"
    await _as_admin(engines.postgres, f"CREATE DATABASE {name}")
    yield f"{engines.postgres}/{name}"
    await _as_admin(engines.postgres, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database_url(engines: Engines) -> AsyncIterator[str]:
    """A database with the newest schema, copied from a template."""
    name = f"t_{uuid4().hex}"
    await _as_admin(engines.postgres, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")
    yield f"{engines.postgres}/{name}"
    await _as_admin(engines.postgres, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = open_database(database_url)
    yield engine
    await engine.dispose()


@pytest.fixture
async def redis_url(engines: Engines) -> str:
    client = open_redis(engines.redis)
    await client.flushall()
    await client.aclose()
    return engines.redis


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = open_redis(redis_url)
    yield client
    await client.aclose()
