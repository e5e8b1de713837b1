"""The first minutes with `tga up`, in a real browser: the one-time link, posts that arrive, a channel, a search."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import BrowserContext, expect

pytestmark = pytest.mark.browser

Starter = Any
Watch = Any
OpenContext = Callable[..., Awaitable[BrowserContext]]

WELCOME = re.compile(r"(http://\S+/welcome\?token=\S+)")


async def welcome_of(tga: Any) -> str:
    async with asyncio.timeout(300):
        while line := (await tga.process.stdout.readline()).decode():
            if found := WELCOME.search(line):
                return found[1]
    raise AssertionError("it gave no link")


async def test_from_the_link_to_a_search(start: Starter, open_context: OpenContext, watch: Watch) -> None:
    tga = await (await start()).ready()
    welcome = await welcome_of(tga)
    context = await open_context(language="ru-RU")
    page = watch.on(await context.new_page())
    watch.expected.append("htmx:")  # a page that is left drops what it was loading
    await page.goto(welcome)
    await page.locator("#login").fill("editor")
    await page.locator("#password").fill("a long enough password")
    await page.locator("main form button").click()
    root = welcome.partition("/welcome")[0]
    await expect(page).to_have_url(f"{root}/start")
    await page.get_by_role("link", name="Осмотреться").or_(page.locator("nav a[href='/']")).first.click()

    # Posts arrive without being asked for: first the place where they will be, then they themselves.
    await expect(page.locator("article").first).to_be_visible(timeout=300_000)

    await page.goto(f"{root}/channels")
    await expect(page.get_by_text("@svodka_dnya")).to_be_visible(timeout=300_000)
    await page.get_by_role("link", name="Сводка дня").click()
    await expect(page.locator("main")).to_contain_text("ничего не пропущено", timeout=300_000)

    # The channel is given up, and added again by its name. Its page may ask once more how far it is read: 404.
    watch.expected += [f"404 (Not Found) ({page.url}/coverage", "[object HTMLDivElement]"]
    page.on("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("button", name="Удалить канал").click()
    await expect(page).to_have_url(f"{root}/channels")
    await page.goto(f"{root}/channels")
    await expect(page.get_by_text("@svodka_dnya")).to_have_count(0)
    await page.locator("input[name=reference]").fill("https://t.me/svodka_dnya")
    await page.get_by_role("button", name="Добавить", exact=True).click()
    await expect(page.get_by_role("link", name="Сводка дня").first).to_be_visible(timeout=300_000)

    await page.goto(f"{root}/search?q=has:photo")
    await expect(page.locator("main img").first).to_be_visible(timeout=300_000)
    again = await (await open_context()).new_page()
    await again.goto(welcome)
    await expect(again.locator("#password")).to_have_count(0)  # the link worked once
    await context.close()
    outcome = await tga.stop()
    assert outcome.code == 0, outcome.err
