"""`tga up`, `tga ingest`, `tga worker`, `tga api`, `tga bot`: the processes that run until they are stopped."""

from __future__ import annotations

import asyncio

from rich.console import Console

from telegram_assistant.config import load_settings
from telegram_assistant.log import configure_logging
from telegram_assistant.terminal import Steps


def up() -> None:
    _run("up")


def ingest() -> None:
    _run("ingest")


def worker() -> None:
    _run("worker")


def api() -> None:
    _run("api")


def bot() -> None:
    _run("bot")


def _run(role: str) -> None:
    from telegram_assistant.wiring.roles import run_role  # noqa: PLC0415 - half of all libraries, which --help does without

    settings = load_settings()
    configure_logging(json=settings.log_format == "json", level=settings.log_level)
    asyncio.run(run_role(role, settings, Steps(Console())))
