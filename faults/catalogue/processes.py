"""Faults of our own processes."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psutil

from bench.load_roles import Slot
from faults.installation import Installation
from faults.trial import Break, Fault, Scope
from telegram_assistant.embedded.process import free_port

FEW_FILES = 8  # fewer than are open: these stay, and no further one is given


def killed(role: str) -> Break:
    """kill -9; its service manager starts it again."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        os.kill(lane.pid(role), signal.SIGKILL)
        yield

    return broken


def stopped(role: str) -> Break:
    """SIGSTOP: it is there and does nothing."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        pid = lane.pid(role)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return broken


def ended(role: str) -> Break:
    """It ended, and is not started again. Those that are left must tell."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        slot = lane.slot(role)
        await slot.stop()
        lane.slots.remove(slot)
        try:
            yield
        finally:
            lane.slots.append(slot)
            await slot.start()

    return broken


def limited(kind: int, most: int) -> Break:
    """The system refuses the process something: room for files, or another open file."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        process = psutil.Process(lane.pid("up"))
        before = process.rlimit(kind)
        process.rlimit(kind, (most, before[1]))
        try:
            yield
        finally:
            with suppress(psutil.NoSuchProcess):
                process.rlimit(kind, before)

    return broken


def second(role: str, settings: dict[str, str]) -> Break:
    """Another process of the same role, with other settings."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        folder = lane.folder / f"second-{role}"
        folder.mkdir(exist_ok=True)
        changed = {"INGEST_HEALTH_PORT": str(free_port()), "WORKER_HEALTH_PORT": str(free_port())} | settings
        if settings.get("TGA_DATA_DIR"):
            changed["TGA_DATA_DIR"] = str(folder / "data")
        slot = Slot(f"second-{role}", role, {**lane.environment, **changed}, folder)
        starting = asyncio.ensure_future(slot.start())
        lane.slots.append(slot)
        try:
            yield
        finally:
            lane.slots.remove(slot)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await slot.stop()

    return broken


@asynccontextmanager
async def taken_over(lane: Installation) -> AsyncIterator[None]:
    """A second ingest stands by, the first is killed and stays so, and comes back much later."""
    async with second("ingest", {})(lane):
        await asyncio.sleep(20)
        first = lane.slot("ingest")
        os.kill(lane.pid("ingest"), signal.SIGKILL)
        await first.stop()
        lane.slots.remove(first)
        for channel in lane.telegram.channels:
            lane.telegram.post(channel)
        yield
        lane.slots.append(first)
        await first.start()


async def all_captured(lane: Installation) -> str | None:
    """Nothing that was posted is missing."""
    rows = await lane.rows("SELECT count(*) AS posts FROM posts WHERE deleted_at IS NULL")
    told = sum(len(channel.messages) for channel in lane.telegram.channels)
    return f"all {told} posts are captured" if rows[0].posts >= told - 2 else None


async def refuses(lane: Installation) -> str | None:
    """A process that cannot work ends itself, and its last words say why; it has no health page to say it on."""
    log = lane.folder / "second-ingest" / "second-ingest.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return next((line for line in reversed(lines) if "another key" in line and not line.startswith("{")), None)


FAULTS = (
    Fault(name="tga ingest is killed", scope=Scope.NOTHING, broken=killed("ingest"), layout="apart", lasts=5),
    Fault(name="tga worker is killed", scope=Scope.NOTHING, broken=killed("worker"), layout="apart", lasts=5),
    Fault(name="tga api is killed", scope=Scope.NOTHING, broken=killed("api"), layout="apart", lasts=5),
    Fault(name="tga up is killed", scope=Scope.NOTHING, broken=killed("up"), lasts=5),
    Fault(name="tga ingest is stopped", scope=Scope.SYSTEM, broken=stopped("ingest"), layout="apart", says="ingest"),
    Fault(name="tga worker is stopped", scope=Scope.SYSTEM, broken=stopped("worker"), layout="apart", says="worker"),
    Fault(
        name="tga ingest ended, and nothing starts it again",
        scope=Scope.SYSTEM,
        broken=ended("ingest"),
        layout="apart",
        says="ingest|scheduler|captur",
    ),
    Fault(
        name="tga worker ended, and nothing starts it again",
        scope=Scope.SYSTEM,
        broken=ended("worker"),
        layout="apart",
        says="worker|stage|waits|behind",
    ),
    Fault(
        name="A second ingest takes over from a killed one",
        mark="N8",
        scope=Scope.ACCOUNT,
        broken=taken_over,
        layout="apart",
        notice=all_captured,
    ),
    Fault(
        name="A second ingest has another secret key",
        mark="N31",
        scope=Scope.ACCOUNT,
        broken=second("ingest", {"TGA_SECRET_KEY": "of a stranger"}),
        layout="apart",
        notice=refuses,
    ),
    Fault(
        name="A second worker keeps its vectors in another folder",
        mark="N30",
        scope=Scope.INDEX,
        broken=second("worker", {"TGA_DATA_DIR": "own"}),
        layout="apart",
        says="vector|index|folder",
        indexes=True,
        replaced=True,
    ),
    Fault(
        name="The disk takes no more bytes",
        scope=Scope.SYSTEM,
        broken=limited(resource.RLIMIT_FSIZE, 1),
        says=".",
    ),
    Fault(
        name="The process may open no more files",
        scope=Scope.SYSTEM,
        broken=limited(resource.RLIMIT_NOFILE, FEW_FILES),
        says=".",
    ),
)
