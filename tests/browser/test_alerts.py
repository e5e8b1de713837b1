"""Alerts and storage in a real browser: watching a post by a click, setting up Slack, and fetching a file again."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.async_api import BrowserContext, Page, expect
from redis.asyncio import Redis

from telegram_assistant.config import Settings
from telegram_assistant.domain.storage import MEGABYTE
from telegram_assistant.http.dependencies import COOKIE
from telegram_assistant.services.services import Senders, Services
from telegram_assistant.stores.postgres.storage import Storage, Usage
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.jobs import open_alerting, open_places
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.alerting.outside import outside

pytestmark = pytest.mark.browser

Town = Any
Watch = Any
OpenContext = Callable[..., Awaitable[BrowserContext]]
SHA = "cd" * 32


async def opened(open_context: OpenContext, town: Town, watch: Watch, address: str, **how: Any) -> Page:
    context = await open_context(**how)
    await context.add_cookies([{"name": COOKIE, "value": town.admin.cookie, "url": address}])
    page = await context.new_page()
    watch.on(page)
    return page


async def looked_at(page: Page, name: str) -> None:
    """A picture for people, where TGA_PICTURES says so."""
    if folder := os.environ.get("TGA_PICTURES"):
        await page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


async def test_alerts(
    app: FastAPI,
    services: Services,
    redis: Redis,
    town: Town,
    *,
    address: str,
    open_context: OpenContext,
    watch: Watch,
) -> None:
    post = await town.archive.post(1, "Банк поднял ставку до 20 процентов")
    page = await opened(open_context, town, watch, address)
    async with outside() as world:
        settings = Settings(
            alert_loopback=f"127.0.0.1:{world.port}", pagerduty_url=f"{world.base}/v2/enqueue", hostname="test"
        )
        sealer, places = Sealer("key"), open_places(settings, utc_now)
        app.state.services = replace(app.state.services, senders=Senders(places, sealer))
        await page.goto(f"{address}/posts/{post}")
        await page.get_by_role("button", name="Watch", exact=True).click()
        await expect(page.get_by_role("button", name="Stop watching")).to_be_visible()
        await page.goto(f"{address}/alerts")
        await page.get_by_text("Add a place").first.click()
        await page.get_by_label("Address of the webhook").fill(world.slack_url)
        await page.get_by_label("Name").fill("#news")
        await page.get_by_role("button", name="Add a place").click()
        await page.get_by_role("button", name="Send a test").click()
        await expect(page.get_by_text("The test arrived.")).to_be_visible()
        assert len(world.slack) == 1
        await town.archive.run(
            "INSERT INTO post_versions (post_id, version, text, content_hash)"
            " SELECT id, version, text, content_hash FROM posts"
        )
        await town.archive.run("UPDATE posts SET text = 'Банк поднял ставку до 21 процента', version = 2")
        await town.archive.run("UPDATE channels SET status = 'dead', last_error = 'CHANNEL_PRIVATE' WHERE id = 200")
        await open_alerting(services.database, redis, sealer, places, settings=settings, clock=utc_now).once()
        await page.goto(f"{address}/alerts")
        await expect(page.locator("article ins")).to_have_text("21 процента")
        await expect(page.get_by_text("Sport cannot be read any more")).to_be_visible()
        assert len(world.slack) == 3
        await looked_at(page, "alerts")


async def test_storage(services: Services, town: Town, address: str, open_context: OpenContext, watch: Watch) -> None:
    storage = Storage(services.database)
    for day in range(20):
        usage = [
            Usage("media", 100, (40 + 2 * (20 - day)) * MEGABYTE),
            Usage("pages", 10, (5 + 20 - day) * MEGABYTE // 2),
            Usage("vision", 10, 3 * MEGABYTE),
            Usage("posts", 1000, 9 * MEGABYTE),
        ]
        await storage.record(town.admin.tenant_id, usage, utc_now() - timedelta(days=day))
    await storage.set_quota(town.admin.tenant_id, 100)
    post = await town.archive.post(1, "нефть")
    await town.archive.picture(post, SHA)
    await town.archive.run("UPDATE media_objects SET evicted_at = now(), size = 250000")
    await town.archive.run("UPDATE post_media SET status = 'evicted', file_id = 'f', name = 'график.png'")
    for language, dark in (("en-US", False), ("ru-RU", True)):
        page = await opened(open_context, town, watch, address, language=language, dark=dark)
        await page.goto(f"{address}/storage")
        await expect(page.locator("svg g")).to_have_count(20)
        await looked_at(page, f"storage-{language}")
    await page.get_by_role("button", name="Скачать снова").click()
    await expect(page.get_by_text("скачивается")).to_be_visible()
