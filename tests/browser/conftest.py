"""Real Chromium, driven by Playwright. A page that logs an error, breaks its policy or asks elsewhere fails a test."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright, expect

from telegram_assistant.bus.observer import Sampler
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.http.serving import listen, serve
from telegram_assistant.services.live import make_feed
from telegram_assistant.services.services import Services
from telegram_assistant.stages import groups
from telegram_assistant.stores.postgres.pipeline import DeadLetters
from tests.e2e.conftest import place, start  # noqa: F401 - fixtures
from tests.integration.conftest import app, app_of, archive, lexicon, services, town  # noqa: F401 - fixtures

UNPACKED = Path(sys.prefix) / "chromium"  # scripts/chromium puts it there
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 120.0
expect.set_options(timeout=SECONDS * 1000)  # only ends what hangs


def find_chromium() -> str | None:
    ours = UNPACKED / "usr" / "lib" / "chromium" / "chromium-headless-shell"
    return next((path for name in NAMES if (path := shutil.which(name))), str(ours) if ours.exists() else None)


@dataclass
class Watch:
    """What went wrong on the pages of a test."""

    troubles: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)  # parts of messages that a test provokes

    def on(self, page: Page) -> Page:
        page.set_default_timeout(SECONDS * 1000)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("request", self._request)
        return page

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text} ({message.location['url']})")

    def _request(self, request: Request) -> None:
        host = urlsplit(request.url).hostname
        if host not in ("127.0.0.1", None):
            self.troubles.append(f"asked somebody else: {request.url}")

    def unexpected(self) -> list[str]:
        return [one for one in self.troubles if not any(part in one for part in self.expected)]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    path = find_chromium()
    if path is None:
        reason = "there is no Chromium: install chromium, or let scripts/chromium fetch it"
        if os.environ.get("CI") or os.environ.get("TGA_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Some libraries look for others in a folder of their own (libpulse does), which is not where they expect it.
    unpacked = (UNPACKED / "usr" / "lib").glob("*-linux-gnu/**/*.so*")
    libraries = sorted({str(library.parent) for library in unpacked})
    env: dict[str, str | float | bool] = {**os.environ}
    if libraries:
        env["LD_LIBRARY_PATH"] = ":".join(libraries)
    # Without its sandbox: root may not have one, and what it opens is ours.
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], env=env)
        yield launched
        await launched.close()


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    made = Watch()
    yield made
    assert made.unexpected() == []


@pytest.fixture
async def open_context(browser: Browser) -> AsyncIterator[Callable[..., object]]:
    """A browser of somebody: cookies of its own."""
    async with AsyncExitStack() as stack:

        async def make(
            *, width: int = 1280, height: int = 900, language: str = "en-US", dark: bool = False
        ) -> BrowserContext:
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                locale=language,
                color_scheme="dark" if dark else "light",
                timezone_id="Europe/Moscow",
            )
            stack.push_async_callback(context.close)
            return context

        yield make


@pytest.fixture
async def address(app: FastAPI, services: Services) -> AsyncIterator[str]:  # noqa: F811 - of the import above
    """The pages over the archive, served on loopback."""
    sampler = Sampler(services.redis, groups(), DeadLetters(services.database).counts)
    app.state.services = replace(app.state.services, sampler=sampler)
    app.state.services = replace(app.state.services, live=make_feed(services.redis, services.database, sampler))
    supervisor = Supervisor()
    with listen("127.0.0.1", 0, variable="API_PORT") as listener:
        await supervisor.start("api", lambda task: serve(app, listener, task))
        await supervisor.start("stage_samples", sampler.run)
        await supervisor.start("live_events", app.state.services.live.run)
        host, port = listener.getsockname()[:2]
        yield f"http://{host}:{port}"
        await supervisor.stop()
