"""Pictures of every page of a running demo, taken by Chromium after signing in with its one-time link."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

CHROMIUM = (
    "/usr/bin/chromium-headless-shell",
    "/usr/bin/chromium",
    ".venv/chromium/usr/lib/chromium/chromium-headless-shell",
)
WIDE = ViewportSize(width=1280, height=860)
FIRST_SIZE = ViewportSize(width=1100, height=720)
PHONE = ViewportSize(width=390, height=844)
NAME, PASSWORD = "editor", "a long enough password"
PAGES = {
    "home": "/",
    "search": "/search?q=рынок",
    "ask": "/ask?q=Кто+видел+комету%3F",
    "channels": "/channels",
    "graph": "/graph",
    "saved": "/saved",
    "pipeline": "/pipeline",
    "account": "/account",
    "digests": "/digests",
    "trends": "/trends",
    "interests": "/interests",
    "storage": "/storage",
    "jobs": "/jobs",
}


FIRST_RUN = {"start": "/start", "connect": "/connect"}  # in both languages


def main(welcome: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = next(path for path in CHROMIUM if Path(path).exists())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        context = browser.new_context(viewport=WIDE, locale="ru-RU", timezone_id="Europe/Moscow")
        page = context.new_page()
        begin(page, welcome)
        root = "{0.scheme}://{0.netloc}".format(urlsplit(welcome))
        first_run(browser, context, root, folder)
        furnish(page, root)
        for name, address in PAGES.items():
            shoot(page, root + address, folder / f"{name}.png")
        follow(page, root, "/search?q=has:album", "a[href^='/posts/']", folder / "post.png")
        preview(page, root, folder / "digest.png")
        follow(page, root, "/channels", ".rows a[href^='/channels/']", folder / "channel.png")
        variants(browser, context, root, folder)
        browser.close()


def begin(page: Page, welcome: str) -> None:
    page.goto(welcome)
    if page.locator("input[type=password]").count() == 0:  # the link was used: sign in
        page.goto(welcome.partition("/welcome")[0] + "/sign-in")
    page.locator("main input:not([type=hidden]):not([type=password])").first.fill(NAME)
    for box in page.locator("input[type=password]").all():
        box.fill(PASSWORD)
    page.locator("main form button").first.click()
    page.wait_for_load_state("networkidle")


def furnish(page: Page, root: str) -> None:
    """Something to see on pages that begin empty."""
    told = json.loads(page.locator("body").get_attribute("hx-headers") or "{}")
    for path, body in {
        "saved-searches": {"name": "Рынки", "query": "рынок OR биржа"},
        "digests": {"name": "Утро", "topics": ["economy", "science"], "time": "08:30"},
        "trends/find": {},
    }.items():
        page.request.post(f"{root}/api/v1/{path}", headers=told, data=body)


def shoot(page: Page, address: str, file: Path) -> None:
    answer = page.goto(address)
    if answer is None or not answer.ok:
        print(f"{address}: {answer.status if answer else 'no answer'}", file=sys.stderr)  # noqa: T201 - a script
        return
    page.wait_for_timeout(1500)  # what htmx loads afterwards; events keep the network busy for ever
    page.screenshot(path=file)


def follow(page: Page, root: str, address: str, link: str, file: Path) -> None:
    page.goto(root + address)
    place = page.locator(link).first
    if place.count():
        shoot(page, root + str(place.get_attribute("href")), file)


def preview(page: Page, root: str, file: Path) -> None:
    """What a digest would say now."""
    page.goto(f"{root}/digests")
    digest = page.locator("main a[href^='/digests/']:not([href$='/new'])").first.get_attribute("href")
    page.goto(f"{root}{digest}/edit")
    with page.expect_response(f"{root}/digests/preview"):
        page.locator("[hx-post='/digests/preview']").click()
    page.wait_for_timeout(1500)
    page.evaluate("document.querySelector('#preview').scrollIntoView()")
    page.screenshot(path=file)


def variants(browser: Browser, context: BrowserContext, root: str, folder: Path) -> None:
    """The same for another reader: English, dark, on a phone."""
    state = context.storage_state()
    dark = browser.new_context(viewport=WIDE, locale="en-US", color_scheme="dark", storage_state=state)
    shoot(dark.new_page(), f"{root}/", folder / "home-dark.png")
    phone = browser.new_context(viewport=PHONE, locale="ru-RU", storage_state=state)
    shoot(phone.new_page(), f"{root}/", folder / "home-phone.png")
    shoot(phone.new_page(), f"{root}/search?q=рынок", folder / "search-phone.png")


def first_run(browser: Browser, context: BrowserContext, root: str, folder: Path) -> None:
    for language in ("en-US", "ru-RU"):
        reader = browser.new_context(viewport=FIRST_SIZE, locale=language, storage_state=context.storage_state())
        for name, address in FIRST_RUN.items():
            shoot(reader.new_page(), root + address, folder / f"{name}-{language[:2]}.png")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "docs/images"))
