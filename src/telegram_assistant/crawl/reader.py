"""The page reader: a safe fetch, robots.txt, and the page taken apart in a process of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Protocol

from telegram_assistant.crawl.fetcher import Fetched, Fetcher, check_status, kept_value
from telegram_assistant.crawl.pool import Pool, worker_command
from telegram_assistant.crawl.reading import Extracted
from telegram_assistant.crawl.robots import Robots
from telegram_assistant.domain.page import Known, Page
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
from telegram_assistant.errors import Fatal, Reject, Retry, Skip
from telegram_assistant.metrics import CRAWL_BYTES, CRAWL_PAGES, CRAWL_SECONDS


class Manners(Protocol):
    """How often a host may be asked; `CrawlBudget` knows. Raises Retry when it is too often."""

    async def take_host(self, host: str) -> None: ...

    async def slow_down(self, host: str, seconds: float) -> None: ...


def open_reader(
    fetcher: Fetcher,
    robots: Robots,
    *,
    clock: Callable[[], datetime],
    manners: Manners | None = None,
    allow: Allowance = NO_HOSTS,
    size: int = 1,
    seconds: float = 10.0,
) -> WebReader:
    """With trafilatura in at most `size` processes, each page in `seconds`; nothing is started yet."""
    pool = Pool(worker_command("trafilatura"), size=size, seconds=seconds)
    return WebReader(fetcher, robots, pool, clock=clock, manners=manners, allow=allow)


class WebReader:
    """Satisfies PageReader.

    Who asks pays for the first host (`CrawlBudget.take`); hosts that redirects lead to are paid for here.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        robots: Robots,
        pool: Pool,
        *,
        clock: Callable[[], datetime],
        manners: Manners | None = None,
        allow: Allowance = NO_HOSTS,
    ) -> None:
        self._fetcher = fetcher
        self._robots = robots
        self._pool = pool
        self._clock = clock
        self._manners = manners
        self._allow = allow

    async def read(self, url: str, known: Known | None = None) -> Page:
        with CRAWL_SECONDS.time():
            try:
                page = await self._read(url, known)
            except (Retry, Skip, Reject) as exc:
                CRAWL_PAGES.labels(type(exc).__name__.lower()).inc()
                raise
        CRAWL_PAGES.labels("unchanged" if page.unchanged else "read").inc()
        return page

    async def close(self) -> None:
        await self._pool.close()

    async def _read(self, url: str, known: Known | None) -> Page:
        try:
            start = canonical(parse_url(url))
        except BadUrl as exc:
            raise Reject(str(exc)) from exc

        async def gate(here: Url) -> None:
            await self._ask_leave(here, first=here.host == start.host)

        fetched = await self._fetcher.get(str(start), headers=_conditions(known), gate=gate)
        if fetched.status == 304 and known is not None:
            return Page(
                url=str(canonical(fetched.url)),
                etag=known.etag,
                last_modified=known.last_modified,
                unchanged=True,
            )
        check_status(fetched.status, fetched.headers, self._clock())
        CRAWL_BYTES.inc(fetched.wire_bytes)
        if b"\0" in fetched.body[:1024] and not fetched.body.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise Skip("this is no text")
        extracted = await self._pool.extract(
            fetched.body, url=str(fetched.url), kind=fetched.kind or "text/html", charset=fetched.charset
        )
        return self._page(fetched, extracted)

    async def _ask_leave(self, here: Url, *, first: bool) -> None:
        if is_telegram(here):
            raise Skip("it leads into Telegram")
        delay = await self._robots.check(here)
        if self._manners is None:
            return
        if delay is not None:
            await self._manners.slow_down(here.host, delay)
        if not first:
            await self._manners.take_host(here.host)

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
        if front or not same_site(named, url) or named.port != url.port or forbidden(named, self._allow):
            return str(own)
        return str(named)


def _conditions(known: Known | None) -> dict[str, str]:
    if known is None:
        return {}
    values = {"If-None-Match": kept_value(known.etag), "If-Modified-Since": kept_value(known.last_modified)}
    return {name: value for name, value in values.items() if value is not None}


def is_installed() -> bool:
    return find_spec("crawl4ai") is not None


def open_crawl4ai_reader(
    fetcher: Fetcher,
    robots: Robots,
    *,
    clock: Callable[[], datetime],
    manners: Manners | None = None,
    allow: Allowance = NO_HOSTS,
    size: int = 1,
    seconds: float = 10.0,
) -> WebReader:
    """As `open_reader`, with Crawl4AI. Raises Fatal when the extra is not installed."""
    pool = Crawl4aiPool(size=size, seconds=seconds)
    return WebReader(fetcher, robots, pool, clock=clock, manners=manners, allow=allow)


class Crawl4aiPool(Pool):
    """Processes with Crawl4AI in place of trafilatura, and the folder it insists on; pages are not kept there.

    Crawl4AI's own fetching (its HTTP strategy or a browser) is not used: neither checks addresses, and a page in a
    browser asks for everything its scripts want.
    """

    def __init__(self, *, size: int = 1, seconds: float = 10.0) -> None:
        if not is_installed():
            raise Fatal(
                "Crawl4AI is not installed: pip install 'telegram-assistant[crawl4ai]', or set CRAWL_READER=web"
            )
        self._folder = TemporaryDirectory(prefix="tga-crawl4ai-")
        home = self._folder.name
        env = {"HOME": home, "CRAWL4_AI_BASE_DIRECTORY": home, "CRAWL4AI_NO_CLOUD_NOTICE": "1"}
        super().__init__(worker_command("crawl4ai"), size=size, seconds=seconds, env=env)

    async def close(self) -> None:
        await super().close()
        self._folder.cleanup()
