"""The roles, built and wired: `tga up` runs all of them in one process, the others one each."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from telegram_assistant.config import Settings
from telegram_assistant.demo import make_demo, pages_in, with_telegram
from telegram_assistant.errors import Fatal
from telegram_assistant.health import health_app, listen, serve
from telegram_assistant.ingest.role import start_ingest
from telegram_assistant.progress import Steps
from telegram_assistant.runtime import Runtime, start_runtime
from telegram_assistant.stages.role import start_worker
from telegram_assistant.stores.postgres.requests import Requests
from telegram_assistant.stores.postgres.tables import SYSTEM_TENANT, SYSTEM_USER

T = TypeVar("T")


@dataclass(frozen=True)
class Roles:
    """What a process does, and where it answers for it."""

    ingest: bool = True
    worker: bool = True
    join: bool = False  # the engines of a `tga up` that runs on the same folder

    def address(self, settings: Settings) -> tuple[str, int, str]:
        if self.ingest:
            return settings.ingest_health_host, settings.ingest_health_port, "INGEST_HEALTH_PORT"
        return settings.worker_health_host, settings.worker_health_port, "WORKER_HEALTH_PORT"


async def run_up(settings: Settings, steps: Steps) -> None:
    """`tga up`: every role in one process, until SIGINT or SIGTERM."""
    await _run(settings, steps, Roles())


async def run_ingest(settings: Settings, steps: Steps) -> None:
    """`tga ingest`: only capture. Any number of them share the channels."""
    await _run(settings, steps, Roles(worker=False, join=True))


async def run_worker(settings: Settings, steps: Steps) -> None:
    """`tga worker`: only the stages. Any number of them share the events."""
    await _run(settings, steps, Roles(ingest=False, join=True))


async def _run(settings: Settings, steps: Steps, roles: Roles) -> None:
    async with AsyncExitStack() as stack:
        stopped = stack.enter_context(stop_signals())
        # The port first: a second start must fail before it touches anything.
        host, port, variable = roles.address(settings)
        listener = stack.enter_context(listen(host, port, variable=variable))
        started = await first_of(_start(settings, steps, stack, listener, roles), stopped)
        if started is None:
            return
        host, port = listener.getsockname()[:2]
        mode = "demo with a simulated Telegram" if settings.demo else "watching Telegram"
        steps.say(f"Telegram Assistant is ready ({mode}): http://{host}:{port}/   Ctrl-C stops it.")
        await first_of(started.supervisor.wait(), stopped)
        steps.say("Stopping …")
    steps.say("Stopped.")


async def _start(
    settings: Settings, steps: Steps, stack: AsyncExitStack, listener: socket.socket, roles: Roles
) -> Runtime:
    runtime = await start_runtime(settings, steps, stack, join=roles.join)
    if settings.demo and (roles.ingest or runtime.running.telegram):
        with steps.step("Simulated Telegram"):
            await (join_demo if roles.join else start_demo)(runtime)
    if roles.ingest:
        with steps.step("Capture"):
            await start_ingest(runtime)
    if roles.worker:
        with steps.step("Pipeline"):
            await start_worker(runtime)
    with steps.step("Health page"):
        app = health_app(runtime.health)
        await runtime.start_task("health", lambda task: serve(app, listener, task))
    return runtime


async def start_demo(runtime: Runtime) -> None:
    """No account is configured: a Telegram of our own, and its channels asked for as a person would."""
    port = runtime.settings.tga_demo_pages_port
    demo = await make_demo(runtime.folder.path / "simulator", clock=runtime.clock, pages_port=port)
    await runtime.start_task("simulator", demo.run)
    telegram = demo.telegram()
    runtime.crawl_allowed = frozenset({demo.pages_address} if demo.pages_address else ())
    runtime.settings = with_telegram(runtime.settings, telegram)
    runtime.folder.announce(replace(runtime.running, telegram=telegram))
    requests = Requests(runtime.database)
    for username in demo.usernames:
        reference = f"@{username.lower()}"
        if await requests.get(UUID(SYSTEM_TENANT), reference) is None:
            await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), reference)


async def join_demo(runtime: Runtime) -> None:
    """Read from the simulated Telegram of the `tga up` that runs on this data folder."""
    telegram = runtime.running.telegram
    if telegram is None:
        raise Fatal(
            "No Telegram account is configured: set TELEGRAM_API_ID and TELEGRAM_API_HASH, or start tga up for a demo"
        )
    pages = pages_in(telegram)
    runtime.crawl_allowed = frozenset({pages} if pages else ())
    runtime.settings = with_telegram(runtime.settings, telegram)


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


async def first_of(work: Coroutine[object, object, T], stopped: asyncio.Event) -> T | None:
    """The result of `work`, or None when we are stopped before. Its errors are raised."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stopped.wait())
    waiting: set[asyncio.Future[Any]] = {working, stopping}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return None
