"""The demo as part of a running system: started by `tga up`, joined by the other roles and commands."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from telegram_assistant.demo import make_demo, pages_in, with_telegram
from telegram_assistant.demo_visitor import Visitor
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.errors import Fatal
from telegram_assistant.runtime import Runtime
from telegram_assistant.stores.postgres.requests import Requests


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
    visitor = Visitor(runtime.database, demo.usernames, clock=runtime.clock)
    await runtime.start_task("demo_visitor", visitor.run)


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
