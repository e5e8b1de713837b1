"""No child knows a secret of ours (N21): neither by its environment nor in its memory, whatever kind of child it is."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import psutil
import pytest

from telegram_assistant.ai.local.provider import LocalEmbedder, ModelProcess
from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.shrink import Shrinker
from telegram_assistant.crawl.pool import Crawl4aiPool, Pool, is_installed, worker_command
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.errors import Skip
from telegram_assistant.processes.worker import start, start_in_thread

pytestmark = pytest.mark.integration

SECRETS = {
    "TELEGRAM_SESSION": "n21-session-1BVtsOK4Bu",
    "TGA_SECRET_KEY": "n21-secret-key-c2VjcmV0",
    "DATABASE_URL": "postgresql://n21-password@db/x",
}
Kind = Callable[[Path], AbstractAsyncContextManager[int | None]]


@asynccontextmanager
async def vision(_: Path) -> AsyncIterator[int | None]:
    made = LocalVision(None, nsfw=False)
    await made.start()
    yield made.status()["worker_pid"]
    await made.close()


@asynccontextmanager
async def shrinking(_: Path) -> AsyncIterator[int | None]:
    made = Shrinker()
    with pytest.raises(Skip):
        await made.shrunk(b"no picture")
    yield made.worker.pid
    await made.close()


@asynccontextmanager
async def thumbnails(_: Path) -> AsyncIterator[int | None]:
    made = Shrinker("thumbnail", limit=60)
    await made.worker.start()
    yield made.worker.pid
    await made.close()


@asynccontextmanager
async def models(_: Path) -> AsyncIterator[int | None]:
    process = ModelProcess()
    await LocalEmbedder(process).embed(["x"])
    yield process.pid
    await process.close()


async def _reading(pool: Pool) -> int | None:
    await pool.extract(b"<p>words</p>", url="http://a.test/", kind="text/html", charset="")
    [worker] = pool.workers
    return worker.pid


@asynccontextmanager
async def pages(_: Path) -> AsyncIterator[int | None]:
    pool = Pool(worker_command("trafilatura"), seconds=120)
    yield await _reading(pool)
    await pool.close()


@asynccontextmanager
async def pages_by_crawl4ai(_: Path) -> AsyncIterator[int | None]:
    if not is_installed():
        pytest.skip("the extra crawl4ai is not installed")
    pool = Crawl4aiPool(seconds=120)
    yield await _reading(pool)
    await pool.close()


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[int | None]:
    data = DataFolder(folder)
    data.make()
    engine = EmbeddedPostgres(data)
    await engine.start()
    yield engine.pid
    await engine.stop()


@asynccontextmanager
async def valkey(folder: Path) -> AsyncIterator[int | None]:
    data = DataFolder(folder)
    data.make()
    engine = EmbeddedValkey(data)
    await engine.start()
    yield engine.pid
    await engine.stop()


@pytest.mark.parametrize(
    "kind",
    [vision, shrinking, thumbnails, models, pages, pages_by_crawl4ai, postgres, valkey],
    ids=lambda one: one.__name__,
)
async def test_n21_no_child_has_a_secret_of_ours(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    async with kind(tmp_path) as pid:
        assert pid is not None
        environ = psutil.Process(pid).environ()
        found = await asyncio.to_thread(in_memory, pid, [value.encode() for value in SECRETS.values()])
    assert environ.keys() & SECRETS.keys() == set()
    assert set(SECRETS.values()) & set(environ.values()) == set()
    assert found == []


def in_memory(pid: int, wanted: list[bytes]) -> list[str]:
    """Where in its heap and stack one of these stands."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if not re.search(r" rw.p .*(\[heap\]|\[stack\]|\b0 *$)", line):
                continue
            start_at, end = (int(number, 16) for number in line.split()[0].split("-"))
            memory.seek(start_at)
            try:
                content = memory.read(min(end - start_at, 64 * 2**20))
            except OSError:
                continue
            found += [line for one in wanted if one in content]
    return found


async def test_n21_a_child_tells_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """By both ways to start one, as the builder of the vector index and initdb are."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    command = (sys.executable, "-c", "import os; print(os.environ, open('/proc/self/environ').read())")
    process = await start(command, stdout=asyncio.subprocess.PIPE)
    told = [(await process.communicate())[0]]
    with await asyncio.to_thread(start_in_thread, command, stdout=subprocess.PIPE) as other:
        told.append((await asyncio.to_thread(other.communicate))[0])
    for words in told:
        assert b"LANG" in words
        assert not any(name.encode() in words for name in SECRETS)
