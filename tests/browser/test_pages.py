"""What people do on the pages, in a real browser: sign in, search, look at albums and edits, mend; and cannot do."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, expect
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.credentials import Passwords
from telegram_assistant.http.dependencies import COOKIE
from tests.integration.api.newsroom import Newsroom
from tests.integration.conftest import PRIVATE, QUICK
from tests.integration.stages.desk import Desk

pytestmark = pytest.mark.browser

Town = Any
Person = Any
Watch = Any
OpenContext = Callable[..., Awaitable[BrowserContext]]

PAGES = ("/", "/search?q=снег", "/ask", "/channels", "/channels/100", "/graph", "/saved", "/pipeline", "/account")


@pytest.fixture
def newsroom(town: Town, database: AsyncEngine, redis: Redis, services: Any) -> Newsroom:
    return Newsroom(town.archive, Desk(database, redis, services.media))


async def signed_in(open_context: OpenContext, address: str, person: Person, **choices: Any) -> BrowserContext:
    context = await open_context(**choices)
    await context.add_cookies([{"name": COOKIE, "value": person.cookie, "url": address}])
    return context


async def opened(context: BrowserContext, watch: Watch, address: str) -> Page:
    page = await context.new_page()
    watch.on(page)
    await page.goto(address)
    return page


async def test_signing_in_and_out(address: str, town: Town, open_context: OpenContext, watch: Watch) -> None:
    await town.archive.run(
        "UPDATE users SET login = 'anna', password_hash = :hash WHERE id = :id",
        hash=await Passwords(QUICK).hash("correct horse battery"),
        id=town.member.user_id,
    )
    page = await opened(await open_context(), watch, f"{address}/channels")
    await expect(page).to_have_url(f"{address}/sign-in?next=%2Fchannels")
    watch.expected.append("422")
    await page.get_by_label("Name").fill("anna")
    await page.get_by_label("Password").fill("wrong one, surely")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("Wrong name or password")
    await page.get_by_label("Password").fill("correct horse battery")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{address}/channels")
    await expect(page.get_by_text("@daily_news")).to_be_visible()
    await page.goto(f"{address}/account")
    await page.get_by_role("button", name="Sign out", exact=True).click()
    await page.goto(f"{address}/channels")
    await expect(page).to_have_url(f"{address}/sign-in?next=%2Fchannels")


async def test_a_russian_search_finds_every_form_and_marks_it(
    address: str, town: Town, newsroom: Newsroom, open_context: OpenContext, watch: Watch
) -> None:
    await newsroom.save(newsroom.post(1, "Снегом завалило дороги"), newsroom.post(2, "Футбол"))
    page = await opened(await signed_in(open_context, address, town.member, language="ru-RU"), watch, address)
    await page.keyboard.press("/")
    await page.keyboard.type("снега")
    await page.keyboard.press("Enter")
    await expect(page.locator("mark")).to_have_text("Снегом")
    await expect(page.get_by_text("Футбол")).to_have_count(0)
    await page.get_by_text("завалило дороги").first.click()
    await expect(page).to_have_url(f"{address}/posts/{newsroom.post(1).id}")


async def test_an_album_is_a_gallery(
    address: str, town: Town, newsroom: Newsroom, open_context: OpenContext, watch: Watch
) -> None:
    items, _ = await newsroom.album(10, 3)
    page = await opened(await signed_in(open_context, address, town.member), watch, f"{address}/posts/{items[0].id}")
    pictures = page.locator("main img[src*='/thumbnail']")
    await expect(pictures.first).to_be_visible()
    assert await pictures.count() >= 3
    for number in range(3):
        await expect(pictures.nth(number)).to_have_js_property("complete", True)
        assert await pictures.nth(number).evaluate("one => one.naturalWidth") > 100
    await expect(page.get_by_text("СНЕГОПАД & ветер").first).to_be_attached()


async def test_an_edit_is_seen_and_a_script_in_a_post_does_not_run(
    address: str, town: Town, newsroom: Newsroom, open_context: OpenContext, watch: Watch
) -> None:
    story = await newsroom.story()
    page = await opened(await signed_in(open_context, address, town.member), watch, f"{address}/posts/{story.id}")
    await expect(page.locator("main")).to_contain_text("<script>document.title = 'hacked'</script>")
    await expect(page.locator("ins").first).to_be_attached()
    assert "и Твери" in "".join(await page.locator("ins").all_text_contents())
    assert await page.title() != "hacked"
    assert await page.locator("a[href^='javascript']").count() == 0
    assert await page.evaluate("document.scripts.length") == 3, "only our own files"
    await expect(page.locator("svg.chart, figure.chart svg").first).to_be_attached()


async def test_a_dead_letter_is_replayed(
    address: str, town: Town, newsroom: Newsroom, open_context: OpenContext, watch: Watch
) -> None:
    (post,) = await newsroom.save(newsroom.post(1, "Снег"))
    event = {
        "trace_id": "t",
        "occurred_at": "2026-11-01T00:00:00Z",
        "idempotency_key": "posts.parsed:x:1",
        "schema_version": 1,
        "tenant_id": str(town.admin.tenant_id),
        "channel_id": 100,
        "post_id": str(post),
        "version": 1,
        "telegram_message_id": 1,
        "telegram_post_url": "https://t.me/daily_news/1",
        "text": "Снег",
        "urls": [],
        "posted_at": "2026-11-01T00:00:00Z",
        "content_hash": "",
        "has_media": False,
    }
    await town.archive.run(
        "INSERT INTO dead_letters (tenant_id, stage, stream, entry_id, payload, reason, attempts)"
        " VALUES (:tenant, 'tagging', 'stream:posts:parsed', '1-0', CAST(:event AS jsonb), 'The model was away', 5)",
        tenant=town.admin.tenant_id,
        event=json.dumps(event),
    )
    page = await opened(await signed_in(open_context, address, town.admin), watch, f"{address}/pipeline")
    await expect(page.get_by_text("The model was away")).to_be_visible()
    await page.locator("#letters form[action$='/replay'] button").last.click()
    await expect(page.get_by_text("The model was away")).to_have_count(0)
    member = await opened(await signed_in(open_context, address, town.member), watch, f"{address}/pipeline")
    await expect(member.locator("#letters form")).to_have_count(0)


async def test_many_channels_are_paused_and_only_what_an_action_needs_is_asked_for(
    address: str, town: Town, open_context: OpenContext, watch: Watch
) -> None:
    page = await opened(await signed_in(open_context, address, town.admin), watch, f"{address}/channels/many")
    action, priority, group = (page.locator(f"#offers [name={name}]") for name in ("action", "priority", "group"))
    for chosen, asked in (("priority", priority), ("group", group), ("pause", None)):
        await action.select_option(chosen)
        for field in (priority, group):
            await expect(field).to_be_visible(visible=field is asked)
    await page.locator("#offers [data-all]").check()
    await page.locator("#offers button").click()
    await expect(page.get_by_role("status")).to_be_visible()
    await expect(page.locator(".offer .badge", has_text="Paused").first).to_be_visible()


async def test_tenant_b_cannot_see_what_is_private_to_another(
    address: str, town: Town, newsroom: Newsroom, open_context: OpenContext, watch: Watch
) -> None:
    secret = Newsroom(town.archive, newsroom.desk, PRIVATE)
    (post,) = await secret.save(secret.post(1, "Тайна снежного человека"))
    watch.expected.append("404")
    owner = await opened(await signed_in(open_context, address, town.other), watch, f"{address}/posts/{post}")
    await expect(owner.locator("main")).to_contain_text("Тайна снежного человека")
    stranger = await opened(await signed_in(open_context, address, town.admin), watch, f"{address}/posts/{post}")
    await expect(stranger.locator("main")).to_contain_text("There is nothing here")
    await stranger.goto(f"{address}/search?q=тайна")
    await expect(stranger.locator("main")).not_to_contain_text("снежного")


@pytest.mark.parametrize(
    "language, dark, width", [("en-US", False, 1280), ("ru-RU", True, 1000), ("ru-RU", False, 390)]
)
async def test_every_page_fits_and_keeps_its_policy(
    address: str,
    town: Town,
    newsroom: Newsroom,
    open_context: OpenContext,
    watch: Watch,
    *,
    language: str,
    dark: bool,
    width: int,
) -> None:
    """No console error, nothing blocked, nothing asked elsewhere (conftest looks), and no scrolling sideways."""
    story = await newsroom.story()
    context = await signed_in(open_context, address, town.admin, language=language, dark=dark, width=width)
    page = await opened(context, watch, f"{address}/posts/{story.id}")
    for path in ("", *PAGES):
        if path:
            answer = await page.goto(address + path)
            assert answer is not None
            assert answer.ok, path
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        assert await page.locator("h1, h2").count() >= 1, path
        assert await page.evaluate("document.documentElement.lang") == language[:2]
