"""Our own PostgreSQL and Valkey: data that lasts, and a start that mends what a kill left behind (G3)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import psutil
import pytest
from redis.asyncio import Redis
from rich.console import Console

from telegram_assistant.bus.supervisor import Supervisor, TaskState
from telegram_assistant.embedded import postgres as postgres_module
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.redis import open_redis
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring import runtime

pytestmark = pytest.mark.integration


@pytest.fixture
def data(folder: Path) -> Iterator[DataFolder]:
    """An opened data folder, with a name that people have."""
    data = DataFolder(folder / "мои данные [1]")
    data.open()
    yield data
    data.close()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def bystander() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of somebody else, whose number a pid file may name by now."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    yield process
    assert process.returncode is None, "the bystander was harmed"
    process.kill()
    await process.wait()


async def execute(postgres: EmbeddedPostgres, statement: str) -> object:
    connection = await asyncpg.connect(postgres.url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def once(redis_url: str, *command: str) -> object:
    client: Redis = open_redis(redis_url)
    try:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's own gap
    finally:
        await client.aclose()


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that tells nobody when it happens."""
    for _ in range(30_000):
        met = condition()
        if met if isinstance(met, bool) else await met:
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not happen within 300 s")


def is_gone(pid: int | None) -> bool:
    try:
        return pid is None or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_postgres_keeps_its_data_over_a_restart(data: DataFolder) -> None:
    first = EmbeddedPostgres(data)
    await first.start()
    await execute(first, "CREATE TABLE kept AS SELECT 42 AS answer")
    await first.stop()
    second = EmbeddedPostgres(data)
    await second.start()
    try:
        assert await execute(second, "SELECT answer FROM kept") == 42
    finally:
        await second.stop()
    assert sorted(path.name for path in data.path.iterdir()) == ["keys", "lock", "log", "postgres"]


async def test_the_demo_leaves_nothing_among_real_posts(data: DataFolder) -> None:
    demo = EmbeddedPostgres(data, demo=True)
    await demo.start()
    await execute(demo, "CREATE TABLE toys ()")
    await demo.stop()
    real = EmbeddedPostgres(data)
    await real.start()
    try:
        assert await execute(real, "SELECT count(*) FROM pg_tables WHERE tablename = 'toys'") == 0
    finally:
        await real.stop()


async def test_postgres_is_closed_to_others(data: DataFolder) -> None:
    """Loopback only, a password for everybody, nothing secret in the list of processes."""
    postgres = EmbeddedPostgres(data)
    await postgres.start()
    try:
        assert postgres.pid is not None
        password = data.secret("postgres.password")
        assert password not in " ".join(psutil.Process(postgres.pid).cmdline())
        listening = [c.laddr.ip for c in psutil.Process(postgres.pid).net_connections("inet") if c.status == "LISTEN"]
        assert listening == ["127.0.0.1"]
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(postgres.url.replace(password, "guess"))
        if os.geteuid() == 0:
            assert psutil.Process(postgres.pid).uids().effective != 0
    finally:
        await postgres.stop()
    assert (data.path / "keys" / "postgres.password").stat().st_mode & 0o777 == 0o600
    assert (data.path / "postgres").stat().st_mode & 0o777 == 0o700


async def test_valkey_keeps_its_data_over_a_restart(data: DataFolder) -> None:
    first = EmbeddedValkey(data)
    await first.start()
    await once(first.url, "XADD", "s", "*", "k", "v")
    await first.stop()
    second = EmbeddedValkey(data)
    await second.start()
    try:
        assert await once(second.url, "XLEN", "s") == 1
        assert second.pid is not None
        assert data.secret("valkey.password") not in " ".join(psutil.Process(second.pid).cmdline())
    finally:
        await second.stop()


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedValkey])
async def test_a_killed_engine_comes_back_on_the_same_port(
    data: DataFolder, stack: AsyncExitStack, kind: type[EmbeddedPostgres | EmbeddedValkey]
) -> None:
    """Open pools must find it again."""
    engine = kind(data)
    supervisor = Supervisor(first_delay=0.01)
    url = await runtime.start_engine(engine, Steps(Console(quiet=True)), supervisor, stack)
    task = supervisor.tasks[engine.name]
    if isinstance(engine, EmbeddedPostgres):
        await execute(engine, "CREATE TABLE kept AS SELECT 42 AS answer")
    else:
        await once(url, "SET", "kept", "42")
    for restarts in (1, 2):
        await kill_and_wait(engine, task.restarts, supervisor)
        assert (engine.url, task.state, task.restarts) == (url, TaskState.OK, restarts)
    if isinstance(engine, EmbeddedPostgres):
        assert await execute(engine, "SELECT answer FROM kept") == 42
    else:
        assert await once(url, "GET", "kept") == "42"


async def kill_and_wait(engine: EmbeddedPostgres | EmbeddedValkey, restarts: int, supervisor: Supervisor) -> None:
    task = supervisor.tasks[engine.name]
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    await until(lambda: task.restarts > restarts and task.state in (TaskState.OK, TaskState.FAILING))
    assert task.state is TaskState.OK, task.last_error


async def test_a_killed_postgres_comes_back_while_a_backend_of_it_is_still_busy(
    data: DataFolder, stack: AsyncExitStack
) -> None:
    """PostgreSQL rightly refuses to start while a process of the old one may write: wait for it, do not give up."""
    engine = EmbeddedPostgres(data)
    supervisor = Supervisor(first_delay=0.01)
    await runtime.start_engine(engine, Steps(Console(quiet=True)), supervisor, stack)
    connection = await asyncpg.connect(engine.url)
    busy = asyncio.ensure_future(connection.fetchval("SELECT count(*) FROM generate_series(1, 6000000)"))
    try:
        other = await asyncpg.connect(engine.url)
        await until(lambda: other.fetchval("SELECT count(*) > 1 FROM pg_stat_activity WHERE query LIKE '%series%'"))
        await other.close()
        await kill_and_wait(engine, 0, supervisor)
    finally:
        await asyncio.gather(busy, return_exceptions=True)
        connection.terminate()
    assert await execute(engine, "SELECT 1") == 1


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedValkey])
async def test_the_engine_of_a_killed_start_is_ended(
    data: DataFolder, kind: type[EmbeddedPostgres | EmbeddedValkey]
) -> None:
    lost = kind(data)
    await lost.start()
    pid = lost.pid
    found = kind(data)
    await found.start()
    try:
        await until(lambda: is_gone(pid))
        assert found.pid != pid
    finally:
        await found.stop()


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedValkey])
async def test_a_stale_pid_file_harms_nobody(
    data: DataFolder,
    bystander: asyncio.subprocess.Process,
    kind: type[EmbeddedPostgres | EmbeddedValkey],
) -> None:
    await start_and_stop(kind(data))
    write_stale_pid(data, kind, bystander.pid)
    await start_and_stop(kind(data))
    assert bystander.returncode is None


async def start_and_stop(engine: EmbeddedPostgres | EmbeddedValkey) -> None:
    await engine.start()
    await engine.stop()


def write_stale_pid(data: DataFolder, kind: type, pid: int) -> None:
    """As the engine of this folder would have left it."""
    if kind is EmbeddedValkey:
        (data.path / "valkey" / "valkey.pid").write_text(f"{pid}\n", encoding="ascii")
        return
    file = data.path / "postgres" / "postmaster.pid"
    lines = (pid, data.path / "postgres", 1763208000, 5432, "", "127.0.0.1", "  1234567     12345", "ready   ")
    file.write_text("\n".join(str(line) for line in lines) + "\n", encoding="utf-8")
    file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(file, (data.path / "postgres").stat().st_uid, -1)


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedValkey])
async def test_the_engine_of_another_folder_is_left_alone(
    data: DataFolder, folder: Path, kind: type[EmbeddedPostgres | EmbeddedValkey]
) -> None:
    """In a container that is started anew the same numbers come back, with other owners."""
    neighbour_data = DataFolder(folder / "neighbour")
    neighbour_data.open()
    neighbour = kind(neighbour_data)
    await neighbour.start()
    try:
        await start_and_stop(kind(data))
        assert neighbour.pid is not None
        write_stale_pid(data, kind, neighbour.pid)
        await start_and_stop(kind(data))
        assert psutil.pid_exists(neighbour.pid)
        if isinstance(neighbour, EmbeddedPostgres):
            assert await execute(neighbour, "SELECT 1") == 1
        else:
            assert await once(neighbour.url, "PING") is True
    finally:
        await neighbour.stop()
        neighbour_data.close()


async def test_a_cluster_that_was_half_made_is_made_anew(data: DataFolder) -> None:
    for name in ("postgres.new", "postgres.new-1a2b"):
        (data.path / name / "base").mkdir(parents=True)
        (data.path / name / "PG_VERSION").write_text("18\n", encoding="ascii")
    await start_and_stop(EmbeddedPostgres(data))
    assert sorted(path.name for path in data.path.iterdir()) == ["keys", "lock", "log", "postgres"]


async def test_a_start_that_is_cancelled_leaves_no_process(data: DataFolder) -> None:
    """Ctrl-C in the middle of the first start."""
    before = set(psutil.process_iter())
    starting = asyncio.ensure_future(EmbeddedPostgres(data).start())
    await until(lambda: bool(list(data.path.glob("postgres.new*/base"))))  # initdb is at work now
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    mine = [process for process in set(psutil.process_iter()) - before if str(data.path) in " ".join(cmdline(process))]
    await until(lambda: all(is_gone(process.pid) for process in mine))
    await start_and_stop(EmbeddedPostgres(data))


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


async def test_the_data_of_another_version_is_left_alone(data: DataFolder) -> None:
    await start_and_stop(EmbeddedPostgres(data))
    version = data.path / "postgres" / "PG_VERSION"
    made_by = version.read_text(encoding="ascii")
    version.write_text("17\n", encoding="ascii")
    with pytest.raises(Fatal, match=r"was made by PostgreSQL 17, this version brings \d+: start the version"):
        await EmbeddedPostgres(data).start()
    version.write_text(made_by, encoding="ascii")
    await start_and_stop(EmbeddedPostgres(data))


@pytest.mark.skipif(os.geteuid() != 0, reason="only under root PostgreSQL needs another user")
async def test_as_root_in_a_private_home_programs_and_data_move(
    data: DataFolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout in /root: PostgreSQL's user reaches neither the .venv nor the data folder."""
    common = folder / "common"
    monkeypatch.setattr(postgres_module, "COMMON_HOME", common)
    monkeypatch.setattr(postgres_module, "reachable_by_others", lambda _: False)
    await start_and_stop(EmbeddedPostgres(data))
    copied = {path: path.stat().st_ino for path in common.iterdir()}
    assert sorted(path.name.partition("-")[0] for path in copied) == ["embedded", "postgres"]
    assert (data.path / "postgres").resolve() in copied

    postgres = EmbeddedPostgres(data)
    await postgres.start()
    try:
        assert postgres.pid is not None
        assert psutil.Process(postgres.pid).exe().startswith(str(common))
    finally:
        await postgres.stop()
    assert {path: path.stat().st_ino for path in common.iterdir()} == copied, "the second start makes nothing new"
