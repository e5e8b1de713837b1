"""From the demo to an account without a terminal, in a real browser: connect, a new start, tick what to watch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, expect

from telegram_simulator.model import Channel, Message, User
from telegram_simulator.pages import free_port
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.browser.test_first_start import welcome_of

pytestmark = pytest.mark.browser

Starter = Any
Watch = Any
OpenContext = Callable[..., Awaitable[BrowserContext]]
ANN, PHONE, NEWS = 1001, "+79990000001", 5001
LONG = 300_000  # ms: ends what hangs


async def test_connected_on_the_page(start: Starter, open_context: OpenContext, watch: Watch, tmp_path: Path) -> None:
    world, now = World(), datetime.now(UTC).replace(microsecond=0)
    ann = world.add_user(User(ANN, 501, "Ann", phone=PHONE, password="open sesame"))
    news = world.add_channel(Channel(NEWS, 7, "Real news", "real_news", now, members={ANN}))
    world.post(news, Message(1, now, "Something that nobody made up"))
    ann.folders = {"Work": [NEWS]}
    key = tmp_path / "key.pem"
    async with Simulator(world) as simulator:
        key.write_text(simulator.public_key_pem)
        tga = await (
            await start(TELEGRAM_SERVER=simulator.address, TELEGRAM_RSA_KEY=str(key), API_PORT=str(free_port(18431)))
        ).ready()
        page = watch.on(await (await open_context()).new_page())
        watch.expected += [
            "htmx:",
            "ERR_",
            "Failed to load resource",
            "[object Event]",
        ]  # it is away while it starts anew
        await page.goto(await welcome_of(tga))
        await page.locator("#login").fill("editor")
        await page.locator("#password").fill("a long enough password")
        await page.locator("main form button").click()
        await page.get_by_role("link", name="Connect", exact=True).click()
        await page.locator("#api_id").fill("12345")
        await page.locator("#api_hash").fill("0123456789abcdef0123456789abcdef")
        await page.locator("#phone").fill(PHONE)
        await page.get_by_role("button", name="Go on").click()
        await expect(page.get_by_text("Code from Telegram")).to_be_visible(timeout=LONG)
        await page.locator("input[name=answer]").fill(simulator.login_codes[PHONE])
        await page.get_by_role("button", name="Go on").click()
        await expect(page.locator("input[type=password]")).to_be_visible(timeout=LONG)
        await page.locator("input[name=answer]").fill("open sesame")
        await page.get_by_role("button", name="Go on").click()
        # The program starts anew, the session of the page goes on, and the account's channels are offered.
        await expect(page.get_by_text("Everything you follow")).to_be_visible(timeout=LONG)
        await page.get_by_label("Real news").check(timeout=LONG)
        await page.get_by_role("button", name="Watch the ticked").click()
        await expect(page.get_by_text("1 channel is looked for")).to_be_visible(timeout=LONG)
        await page.goto(page.url.partition("/follow")[0] + "/")
        await expect(page.get_by_text("Something that nobody made up").first).to_be_visible(timeout=LONG)
        await expect(page.locator("p.demo")).to_have_count(0)
        assert (await tga.stop()).code == 0, tga.err()
