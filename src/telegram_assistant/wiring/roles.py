"""The roles, built and wired: `tga up` runs all of them in one process, the others one each."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from telegram_assistant.config import Settings
from telegram_assistant.health import Presence
from telegram_assistant.http.serving import health_app, listen, serve
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_assistant.terminal import Steps, first_of, stop_signals
from telegram_assistant.wiring.runtime import Runtime, inherit_engines, start_runtime

WATCH_PATIENCE = 60.0  # seconds: a look takes some at worst


@dataclass(frozen=True)
class Roles:
    """What a process does, and where it answers for it."""

    ingest: bool = True
    worker: bool = True
    api: bool = True
    bot: bool = False
    join: bool = False  # the engines of a `tga up` that runs on the same folder

    @property
    def names(self) -> list[str]:
        return [name for name in ("ingest", "worker", "api", "bot") if getattr(self, name)]

    def listen(self, settings: Settings, stack: AsyncExitStack) -> Doors:
        health = api = None
        if self.ingest:
            host, port = settings.ingest_health_host, settings.ingest_health_port
            health = stack.enter_context(listen(host, port, variable="INGEST_HEALTH_PORT"))
        elif self.worker:
            host, port = settings.worker_health_host, settings.worker_health_port
            health = stack.enter_context(listen(host, port, variable="WORKER_HEALTH_PORT"))
        elif self.bot:
            host, port = settings.bot_health_host, settings.bot_health_port
            health = stack.enter_context(listen(host, port, variable="BOT_HEALTH_PORT"))
        if self.api:
            api = stack.enter_context(listen(settings.api_host, settings.api_port, variable="API_PORT"))
        return Doors(health, api)


@dataclass(frozen=True)
class Doors:
    """Where a process answers: health for machines (the API has its own), pages and API for people."""

    health: socket.socket | None
    api: socket.socket | None

    def address(self) -> str:
        door = self.api or self.health
        assert door is not None  # noqa: S101 - every role has one
        return shown(door)


def shown(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


ROLES = {
    "up": Roles(bot=True),  # every role in one process
    "ingest": Roles(worker=False, api=False, join=True),  # only capture: any number of them share the channels
    "worker": Roles(ingest=False, api=False, join=True),  # only the stages: any number of them share the events
    "api": Roles(ingest=False, worker=False, join=True),  # only the API and the pages: any number serve together
    "bot": Roles(ingest=False, worker=False, api=False, bot=True, join=True),  # one answers, the others stand by
}


async def run_role(name: str, settings: Settings, steps: Steps) -> bool:
    """`tga up`, `tga ingest` and so on, until SIGINT or SIGTERM; or True: to be started anew."""
    return await _run(settings, steps, ROLES[name])


async def _run(settings: Settings, steps: Steps, roles: Roles) -> bool:
    anew = False
    async with AsyncExitStack() as stack:
        stopped = stack.enter_context(stop_signals())

        def restart() -> None:
            nonlocal anew
            anew = True
            stopped.set()

        # The ports first: a second start must fail before it touches anything.
        doors = roles.listen(settings, stack)
        started = await first_of(_start(settings, steps, stack, doors, roles, restart=restart), stopped)
        if started is None:
            return False
        if doors.health and doors.api:
            steps.say(f"Health and metrics: {shown(doors.health)}/")
        mode = "demo with a simulated Telegram" if settings.demo else "watching Telegram"
        steps.say(f"Telegram Assistant is ready ({mode}): {doors.address()}/   Ctrl-C stops it.")
        if started.welcome:
            steps.say(f"Choose a name and a password here (the link works once): {started.welcome}")
        await first_of(started.supervisor.wait(), stopped)
        steps.say("Starting anew, with your account …" if anew else "Stopping …")
    if not anew:
        steps.say("Stopped.")
    return anew


async def _start(
    settings: Settings, steps: Steps, stack: AsyncExitStack, doors: Doors, roles: Roles, *, restart: Callable[[], None]
) -> Runtime:
    runtime = await start_runtime(settings, steps, stack, join=roles.join)
    if roles.ingest and roles.api:
        runtime.restart = restart
    if runtime.joined:
        await runtime.start_task("engines", partial(inherit_engines, runtime))
    if settings.demo and (roles.ingest or runtime.running.telegram):
        from telegram_assistant.wiring.demo import join_demo, start_demo  # noqa: PLC0415 - the simulator and Telethon

        with steps.step("Simulated Telegram"):
            await (join_demo if roles.join else start_demo)(runtime)
    if roles.ingest:
        from telegram_assistant.wiring.ingest import start_ingest  # noqa: PLC0415 - Telethon, which only capture needs

        with steps.step("Capture"):
            await start_ingest(runtime)
    pipeline = None
    if roles.worker:
        from telegram_assistant.wiring.worker import start_worker  # noqa: PLC0415 - models and indexes

        with steps.step("Pipeline"):
            pipeline = await start_worker(runtime)
    if doors.health:
        with steps.step("Health page"):
            await runtime.start_task("health", partial(serve, health_app(runtime.health), doors.health))
    services = None
    if roles.api or roles.bot:
        from telegram_assistant.wiring.api import build_services, start_api  # noqa: PLC0415 - every route and page
    if doors.api:
        with steps.step("API and pages"):
            services = await start_api(runtime, doors.api, doors.address(), pipeline)
    if roles.bot and (settings.telegram_bot_token or not roles.ingest):
        from telegram_assistant.wiring.bot import start_bot  # noqa: PLC0415 - its library takes seconds to load

        with steps.step("Bot"):
            await start_bot(runtime, services or build_services(runtime, None))
    presence = Presence(Upkeep(runtime.database), roles.names)
    runtime.health.sections["roles"] = presence.report
    await runtime.start_task("presence", presence.run, patience=WATCH_PATIENCE)
    await runtime.start_task("health_watch", runtime.health.watch, patience=WATCH_PATIENCE)
    collect_garbage_less()
    return runtime


def collect_garbage_less() -> None:
    """Leave out the loaded code, and look for cycles less often. It took a quarter of the CPU time of a capture."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
