"""`tga up` as a person starts it: a process of its own, in a folder of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil
import pytest

from telegram_assistant.config import Settings
from telegram_assistant.processes.worker import as_user

HEALTH = re.compile(r"Health and metrics: (http://\S+)/")
READY = re.compile(r"Telegram Assistant is ready .*: (http://\S+)/ ")
ROOM = 2 * 2**30


@dataclass
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Tga:
    """A running `tga up`."""

    process: asyncio.subprocess.Process
    data: Path
    errors: Path
    out: list[str] = field(default_factory=list)
    url: str = ""

    async def ready(self) -> Tga:
        """Wait for the line with the address; everything before it is kept."""
        assert self.process.stdout is not None
        async with asyncio.timeout(300):
            while line := (await self.process.stdout.readline()).decode():
                self.out.append(line)
                if found := HEALTH.search(line):
                    self.url = found[1]
                if READY.search(line):
                    return self
        raise AssertionError(f"it ended before it was ready: {self.out} {self.err()}")

    async def end(self) -> Outcome:
        """Wait until it ends by itself."""
        out, _ = await asyncio.wait_for(self.process.communicate(), 300)
        assert self.process.returncode is not None
        return Outcome(self.process.returncode, "".join(self.out) + out.decode(), self.err())

    async def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> Outcome:
        """Stop it as a terminal does: the signal goes to its whole group."""
        os.killpg(self.process.pid, with_signal)
        return await self.end()

    def err(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def engines(self) -> dict[str, psutil.Process]:
        """Its own children but those of the models: unlike the processes that PostgreSQL starts they stay."""
        children = psutil.Process(self.process.pid).children()
        return {child.name(): child for child in children if not child.name().startswith("python")}

    async def details(self) -> dict[str, Any]:
        async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
            answer: dict[str, Any] = (await client.get(f"{self.url}/health/details")).json()
            return answer

    async def well(self) -> dict[str, Any]:
        """Wait until all is well: channels are found and visited after the ready line."""
        details: dict[str, Any] = {}
        for _ in range(3000):
            details = await self.details()
            if details["status"] == "ok":
                return details
            await asyncio.sleep(0.1)
        pytest.fail(f"not well: {details['troubles']}")

    async def query(self, statement: str, *values: object) -> Any:
        """Ask its database, wherever it is."""
        where = json.loads((self.data / "keys" / "running.json").read_text(encoding="utf-8"))
        connection = await asyncpg.connect(where["database_url"])
        try:
            return await connection.fetchval(statement, *values)
        finally:
            await connection.close()


class Starter:
    """Starts `tga up`, and leaves nothing behind."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.started: list[Tga] = []

    async def __call__(
        self, data: Path | None = None, *, python: list[str] | None = None, user: int | None = None, **settings: str
    ) -> Tga:
        data = data or self.place / "data"
        ours = {name.upper() for name in Settings.model_fields}
        env = {name: value for name, value in os.environ.items() if name not in ours}
        env |= {"TGA_DATA_DIR": str(data), "INGEST_HEALTH_PORT": "0", "TGA_DEMO_PAGES_PORT": "0", "TGA_DEMO_POSTS": "6"}
        env |= {"API_PORT": "0", "PREVIEW_HOSTS": "", **settings}  # a test never reaches the real Telegram
        errors = self.place / f"stderr-{len(self.started)}"
        with errors.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(python or [sys.executable]),
                *("-m", "telegram_assistant", "up"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                cwd=self.place,  # where no .env of a developer lies
                env=env,
                start_new_session=True,
                **as_user(user),
            )
        tga = Tga(process, data, errors)
        self.started.append(tga)
        return tga

    async def clean_up(self) -> None:
        for tga in self.started:
            if tga.process.returncode is None:
                left = [psutil.Process(tga.process.pid), *tga.children()]
                for process in left:
                    process.kill()
                await tga.process.communicate()


def memory() -> Path | None:
    """Memory that looks like a disk: the engines sync a lot, and disks of test machines are slow."""
    shm = Path("/dev/shm")  # noqa: S108 - each test makes a folder of its own in it
    if shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > ROOM:
        return shm
    return None


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that any user may pass through."""
    path = Path(tempfile.mkdtemp(prefix="tga-e2e-", dir=memory()))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def start(place: Path) -> AsyncIterator[Starter]:
    starter = Starter(place)
    yield starter
    await starter.clean_up()
