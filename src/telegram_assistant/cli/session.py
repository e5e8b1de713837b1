"""How a command reaches the stores: of the `tga up` that runs here, of the addresses in the settings, or its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import typer
from rich.console import Console

from telegram_assistant.config import Settings, load_settings
from telegram_assistant.errors import Fatal
from telegram_assistant.log import configure_logging
from telegram_assistant.stores.outage import is_outage
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring.runtime import Runtime, start_runtime

T = TypeVar("T")


@asynccontextmanager
async def opened(settings: Settings, steps: Steps) -> AsyncIterator[Runtime]:
    """An engine that stops meanwhile is one line for a person, not a traceback."""
    try:
        async with AsyncExitStack() as stack:
            yield await start_runtime(settings, steps, stack, join=True)
    except Exception as exc:
        if not is_outage(exc):
            raise
        reason = str(getattr(exc, "orig", None) or exc).partition("\n")[0]
        raise Fatal(f"an engine stopped or refuses ({reason}): look with tga doctor, and try again") from exc


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _ if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON")


def with_runtime(work: Callable[[Runtime], Awaitable[T]]) -> T:
    """Run a command's work with everything it needs, and nothing on the screen but its own output."""
    settings = load_settings()
    configure_logging(json=settings.log_format == "json", level="WARNING")

    async def main() -> T:
        async with opened(settings, Steps(Console(quiet=True))) as runtime:
            return await work(runtime)

    return asyncio.run(main())
