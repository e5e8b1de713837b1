"""A digest in a real browser: asked for with a preview, read with its receipts, corrected; and the page of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import BrowserContext, Page, expect

from telegram_assistant.http.dependencies import COOKIE
from telegram_assistant.jobs.digests import DigestJob, open_digest_maker
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import POSTED, SPORT

pytestmark = pytest.mark.browser

Town = Any
Watch = Any
OpenContext = Callable[..., Awaitable[BrowserContext]]

RATE = (
    "Банк России поднял ключевую ставку до 21 процента годовых. Это самое высокое значение за двадцать лет наблюдений."
)
STORM = "Порт Сочи из-за сильного шторма закрыли: отменено двенадцать рейсов. Спасатели просят не выходить к морю."
MATCH = "Московский «Спартак» обыграл «Зенит» 3:1 в матче чемпионата России по футболу на своём поле."


async def news(town: Town) -> None:
    """As if it had come today."""
    await town.archive.post(1, RATE, tags=("ставка",))
    await town.archive.post(2, RATE + " Подробности позже.", channel=SPORT)
    await town.archive.post(3, STORM)
    await town.archive.post(4, MATCH, channel=SPORT)
    for table in ("posts", "search_documents"):
        await town.archive.run(
            f"UPDATE {table} SET posted_at = posted_at + (CAST(:now AS timestamptz) - CAST(:then AS timestamptz))",  # noqa: S608 - two names
            now=utc_now() - timedelta(hours=5),
            then=POSTED,
        )


async def issued(services: Any) -> None:
    """Two days later."""
    job = DigestJob(
        Digests(services.database),
        DigestIssues(services.database),
        open_digest_maker(services.settings, services.database, services.clock),
        [],
        clock=lambda: utc_now() + timedelta(days=1),
        page=lambda _: None,
    )
    await job(utc_now())


async def test_a_digest_from_the_wish_to_the_correction(
    address: str, town: Town, services: Any, open_context: OpenContext, watch: Watch
) -> None:
    await news(town)
    context = await open_context(language="ru-RU")
    await context.add_cookies([{"name": COOKIE, "value": town.member.cookie, "url": address}])
    page: Page = watch.on(await context.new_page())
    await page.goto(f"{address}/digests/new")
    await page.get_by_label("Название").fill("Утренние новости")
    # In an hour, whatever it is now: so what came five hours ago is in the next issue.
    soon = utc_now().astimezone(ZoneInfo("Europe/Moscow")) + timedelta(hours=1)
    await page.get_by_label("Время").fill(f"{soon:%H:%M}")
    await page.get_by_label("лента").check()
    await page.get_by_label("почта").check()
    await page.get_by_role("button", name="Предпросмотр").click()
    await expect(page.locator("#preview")).to_contain_text("ключевую ставку до 21 процента")
    await expect(page.locator("#preview")).to_contain_text("Прочитано: 4 поста в 2 каналах.")
    await page.get_by_role("button", name="Сохранить").click()
    await expect(page.get_by_role("heading", name="Утренние новости")).to_be_visible()
    await issued(services)
    await town.archive.run(
        "UPDATE posts SET text = 'Банк России оставил ставку прежней.', content_hash = 'new', version = 2,"
        " edited_at = now() WHERE message_id = 1 AND channel_id = 100"
    )
    await page.reload()
    await page.locator("article a").first.click()
    await expect(page.locator(".correction").first).to_contain_text("Пост изменён")
    await expect(page.locator(".correction").first).to_contain_text("Банк России оставил ставку прежней.")
    await expect(page.locator(".correction").first).to_contain_text("этого предложения там больше нет")
    await expect(page.locator(".notice.bad")).to_contain_text("не доставлено")
    await page.locator("a.cite").last.click()
    assert "/posts/" in page.url
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.goto(f"{address}/digests")
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390, "it fits a phone"


async def test_the_page_of_jobs(address: str, town: Town, open_context: OpenContext, watch: Watch) -> None:
    context = await open_context(dark=True)
    await context.add_cookies([{"name": COOKIE, "value": town.admin.cookie, "url": address}])
    page: Page = watch.on(await context.new_page())
    await page.goto(f"{address}/jobs")
    await page.locator("tr", has_text="Trends of the day").get_by_role("button").click()
    await expect(page.locator("table").last).to_contain_text("waiting")
