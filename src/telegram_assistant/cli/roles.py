"""`tga up`, `tga ingest`, `tga worker`, `tga api`, `tga bot`, `tga mcp`: processes that run until they are stopped."""

from __future__ import annotations

import asyncio

from rich.console import Console

from telegram_assistant.config import Settings, load_settings
from telegram_assistant.errors import Fatal
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
    settings = load_settings()
    from telegram_assistant.processes.worker import start_anew  # noqa: PLC0415 - the same
    from telegram_assistant.wiring.roles import run_role  # noqa: PLC0415 - many libraries, and --help needs none

    configure_logging(json=settings.log_format == "json", level=settings.log_level)
    if asyncio.run(run_role(role, settings, Steps(Console()))):
        start_anew()


def mcp() -> None:
    settings = load_settings()
    configure_logging(json=settings.log_format == "json", level="WARNING")
    asyncio.run(serve_mcp(settings))


async def serve_mcp(settings: Settings) -> None:
    from telegram_assistant.mcp_server import ApiClient, make_server  # noqa: PLC0415 - the SDK takes a second to load

    key = settings.tga_api_key.get_secret_value().strip() if settings.tga_api_key else ""
    if not key:
        raise Fatal("TGA_API_KEY is not set: make a key with tga keys create, and give it to the assistant's settings")
    if not key.isascii() or not key.isprintable():
        raise Fatal("TGA_API_KEY is no key: it has characters that no key has")
    if not settings.tga_api_url.startswith(("http://", "https://")):
        raise Fatal("TGA_API_URL must begin with http:// or https://, as in http://127.0.0.1:8000")
    async with ApiClient(settings.tga_api_url, key, ca_file=settings.tls_ca_file) as api:
        await make_server(api).run_stdio_async()
