"""The processes of a load run: started as a service manager does, started again when they end, counted and ended."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

MEGABYTE = 2**20
READY_SECONDS = 120.0
STOP_SECONDS = 40.0
AGAIN_SECONDS = 1.0
READY = re.compile(r"is ready .*?(http://\S+?)/\s")
ROOT = Path(__file__).parents[1]


@dataclass
class Slot:
    """One `tga` process with its log."""

    name: str
    command: str
    environment: Mapping[str, str]
    folder: Path
    ready_seconds: float = READY_SECONDS
    starts: int = 0
    process: asyncio.subprocess.Process | None = None
    lines: Counter[str] = field(default_factory=Counter)  # warnings and errors by their name
    address: str = ""
    _read: int = 0
    _keeping: asyncio.Future[None] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    async def start(self) -> None:
        """Return when it says that it is ready."""
        self._keeping = asyncio.ensure_future(self._keep())
        deadline = time.monotonic() + self.ready_seconds
        while not self.address:
            if time.monotonic() > deadline or self._keeping.done() or self.starts > 1:
                raise RuntimeError(f"tga {self.command} did not get ready:\n{self.log.read_text()[-2000:]}")
            await asyncio.sleep(0.1)
            self.read_log()

    async def stop(self) -> None:
        """As a service manager does it."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
        await end(self.process)
        self.read_log()

    async def _keep(self) -> None:
        while True:
            self.starts += 1
            with self.log.open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "telegram_assistant", self.command),
                    env={**self.environment, "HOSTNAME": f"{self.name}-{self.starts}"},
                    cwd=self.folder,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is for us, who end it then
                )
            code = await self.process.wait()
            self.lines[f"ended with code {code}"] += 1
            await asyncio.sleep(AGAIN_SECONDS)

    def read_log(self) -> None:
        """Count what was written since the last look."""
        if not self.log.exists():
            return
        with self.log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        whole = text.rpartition(b"\n")[0]
        self._read += len(whole) + bool(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._count(line)

    def _count(self, line: str) -> None:
        if found := READY.search(f"{line} "):
            self.address = found[1]
        elif line.startswith("{"):
            with suppress(ValueError):
                said: dict[str, Any] = json.loads(line)
                if said.get("level") in {"warning", "error", "critical"}:
                    self.lines[f"{said['level']}: {str(said.get('event'))[:80]}"] += 1
        elif line.startswith("Traceback"):
            self.lines["error: traceback"] += 1


async def end(process: asyncio.subprocess.Process | None) -> None:
    """Gently, and then not."""
    if process is None or process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def environment(**settings: str) -> dict[str, str]:
    """Nothing of the caller's environment but where programs are."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    return {**kept, "LOG_FORMAT": "json", "LOG_LEVEL": "WARNING", **settings}


@asynccontextmanager
async def started(slots: list[Slot]) -> AsyncIterator[None]:
    """All of them together; each is ended, whatever becomes of the others."""
    try:
        await asyncio.gather(*(slot.start() for slot in slots))
        yield
    finally:
        await asyncio.gather(*(slot.stop() for slot in slots))


@dataclass(frozen=True)
class Use:
    """What a process and its children have: megabytes of memory now, seconds of CPU ever."""

    memory: float
    cpu: float


def use_of(pid: int, *, alone: bool = False) -> Use:
    """Memory that is shared, as PostgreSQL's, is counted once (PSS) where the system tells."""
    memory = cpu = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *([] if alone else process.children(recursive=True))):
            with suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                cpu += times.user + times.system + (0.0 if alone else times.children_user + times.children_system)
                memory += _resident(one) / MEGABYTE
    return Use(memory, cpu)


def busy_seconds() -> float:
    """Seconds of CPU that the whole machine has ever used, by any process."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _resident(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss)
    except (psutil.AccessDenied, AttributeError):  # another user's, or another system
        return float(process.memory_info().rss)
