"""The page reader: a safe fetch, robots.txt, and the page taken apart in a process of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Protocol

from telegram_assistant.crawl.fetcher import Fetched, Fetcher, check_status, kept_value
from telegram_assistant.crawl.pool import Pool
from telegram_assistant.crawl.robots import Robots
from telegram_assistant.crawl.worker import Extracted
from telegram_assistant.domain.urls import (
    NO_HOSTS,
    Allowance,
    BadUrl,
    Url,
    canonical,
    forbidden,
    is_telegram,
    join_url,
    parse_url,
    same_site,
)
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.metrics import CRAWL_BYTES, CRAWL_PAGES, CRAWL_SECONDS
from telegram_assistant.stores.postgres.pages import Page


class Manners(Protocol):
    """How often a host may be asked; `CrawlBudget` knows. Raises Retry when it is too often."""

    async def take_host(self, host: str) -> None: ...

    async def slow_down(self, host: str, seconds: float) -> None: ...


@dataclass(frozen=True, eq=False)
class WebReader:
    """Who asks pays for the first host (`CrawlBudget.take`); hosts that redirects lead to are paid for here."""

    fetcher: Fetcher
    robots: Robots
    pool: Pool
    _: KW_ONLY
    clock: Callable[[], datetime]
    manners: Manners | None = None
    allow: Allowance = NO_HOSTS

    async def read(self, url: str, known: Page | None = None) -> Page:
        """`known`: as it was read before, for a conditional request. Raises Retry (the server is away, slow or busy;
        `after` from Retry-After), Skip (nothing for us: not a page, too large, robots.txt, 404, paywall with no text)
        or Reject (not allowed: a private address, a bad scheme)."""
        with CRAWL_SECONDS.time():
            try:
                page = await self._read(url, known)
            except (Retry, Skip, Reject) as exc:
                CRAWL_PAGES.labels(type(exc).__name__.lower()).inc()
                raise
        CRAWL_PAGES.labels("unchanged" if page.unchanged else "read").inc()
        return page

    async def close(self) -> None:
        await self.pool.close()

    async def _read(self, url: str, known: Page | None) -> Page:
        try:
            start = canonical(parse_url(url))
        except BadUrl as exc:
            raise Reject(str(exc)) from exc

        async def gate(here: Url) -> None:
            await self._ask_leave(here, first=here.host == start.host)

        fetched = await self.fetcher.get(str(start), headers=_conditions(known), gate=gate)
        if fetched.status == 304 and known is not None:
            return Page(
                url=str(canonical(fetched.url)),
                etag=known.etag,
                last_modified=known.last_modified,
                unchanged=True,
            )
        check_status(fetched.status, fetched.headers, self.clock())
        CRAWL_BYTES.inc(fetched.wire_bytes)
        if b"\0" in fetched.body[:1024] and not fetched.body.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise Skip("this is no text")
        extracted = await self.pool.extract(
            fetched.body, url=str(fetched.url), kind=fetched.kind or "text/html", charset=fetched.charset
        )
        return self._page(fetched, extracted)

    async def _ask_leave(self, here: Url, *, first: bool) -> None:
        if is_telegram(here):
            raise Skip("it leads into Telegram")
        delay = await self.robots.check(here)
        if self.manners is None:
            return
        if delay is not None:
            await self.manners.slow_down(here.host, delay)
        if not first:
            await self.manners.take_host(here.host)

    def _page(self, fetched: Fetched, extracted: Extracted) -> Page:
        text = extracted.text or extracted.description
        if not text:
            raise Skip("there is no text on the page")
        return Page(
            url=self._name(fetched.url, extracted.canonical),
            title=extracted.title,
            text=text,
            description=extracted.description,
            language=extracted.language,
            site=extracted.site or fetched.url.host,
            published=extracted.published,
            content_hash=hashlib.sha256(text.encode()).hexdigest(),
            etag=kept_value(fetched.headers.get("etag")),
            last_modified=kept_value(fetched.headers.get("last-modified")),
        )

    def _name(self, url: Url, claimed: str) -> str:
        """What the page says it is called, if that is on the same site and not just its front page."""
        own = canonical(url)
        if not claimed:
            return str(own)
        try:
            named = canonical(join_url(url, claimed))
        except BadUrl:
            return str(own)
        front = named.path == "/" and not named.query and (own.path != "/" or own.query)
        if front or not same_site(named, url) or named.port != url.port or forbidden(named, self.allow):
            return str(own)
        return str(named)


def _conditions(known: Page | None) -> dict[str, str]:
    if known is None:
        return {}
    values = {"If-None-Match": kept_value(known.etag), "If-Modified-Since": kept_value(known.last_modified)}
    return {name: value for name, value in values.items() if value is not None}
