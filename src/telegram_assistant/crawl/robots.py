"""What sites ask of robots: robots.txt, fetched like any page, remembered for a while (RFC 9309)."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from protego import Protego

from telegram_assistant.crawl.fetcher import ANY_KIND, PRODUCT, Fetcher, retry_after
from telegram_assistant.domain.urls import Url
from telegram_assistant.errors import Reject, Retry, Skip

LONGEST_FILE = 500 * 2**10  # as much as RFC 9309 asks for
KEPT = timedelta(hours=12)
KEPT_FAILURE = timedelta(minutes=5)
MOST_SITES = 2000
MOST_CHARACTERS = 16 * 2**20  # of all remembered files together
SLOWEST = 60.0  # a longer crawl-delay is not waited for

_AGENT_LINE = re.compile(r"\s*user[-\s]*agent\s*:?(?P<name>[^#]*)", re.IGNORECASE)
_FOR_US, _FOR_ANOTHER = f"User-agent: {PRODUCT}", "User-agent: another-robot"


@dataclass(frozen=True, slots=True)
class _Remembered:
    rules: str  # empty: everything is allowed
    until: datetime
    failure: str = ""


class Robots:
    """Asked before each request. A site that cannot say what it allows is asked again later."""

    def __init__(self, fetcher: Fetcher, *, clock: Callable[[], datetime], most_sites: int = MOST_SITES) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._most_sites = most_sites
        self._sites: OrderedDict[str, _Remembered] = OrderedDict()
        self._characters = 0
        self._locks = tuple(asyncio.Lock() for _ in range(64))  # shared by sites, so that they do not pile up

    async def check(self, url: Url) -> float | None:
        """The crawl-delay the site asks for, if any. Skip: robots may not go there. Retry: that is not known."""
        site = f"{url.scheme}://{url.authority}"
        async with self._locks[hash(site) % len(self._locks)]:
            known = self._sites.get(site)
            if known is None or known.until <= self._clock():
                known = await self._ask(site)
                self._remember(site, known)
            else:
                self._sites.move_to_end(site)
        if known.failure:
            seconds = (known.until - self._clock()).total_seconds()
            raise Retry(known.failure, after=max(1.0, seconds), failed=True)  # a dead site is not asked for ever
        if not known.rules:
            return None
        allowed, delay = await asyncio.to_thread(_judge, known.rules, str(url))  # long files take their time
        if not allowed:
            raise Skip(f"robots.txt of {url.host} does not allow it")
        return None if delay is None else min(delay, SLOWEST)

    async def _ask(self, site: str) -> _Remembered:
        now = self._clock()
        try:
            answer = await self._fetcher.get(f"{site}/robots.txt", kinds=ANY_KIND, cut_at=LONGEST_FILE)
        except (Skip, Reject):
            return _Remembered("", now + KEPT)  # there is no such file for us; the page itself is checked anyway
        except Retry as exc:
            return _Remembered("", now + KEPT_FAILURE, f"robots.txt: {exc}")
        if answer.status == 429 or answer.status >= 500:
            wait = retry_after(answer.headers, now)
            until = now + (KEPT_FAILURE if wait is None else timedelta(seconds=wait))
            return _Remembered("", until, f"robots.txt answers {answer.status}")
        if not 200 <= answer.status < 300:
            return _Remembered("", now + KEPT)
        return _Remembered(_relevant(answer.body.decode("utf-8", "replace")), now + KEPT)

    def _remember(self, site: str, known: _Remembered) -> None:
        old = self._sites.pop(site, None)
        self._characters += len(known.rules) - (len(old.rules) if old else 0)
        self._sites[site] = known
        while len(self._sites) > self._most_sites or (self._characters > MOST_CHARACTERS and len(self._sites) > 1):
            _, dropped = self._sites.popitem(last=False)
            self._characters -= len(dropped.rules)


def _relevant(text: str) -> str:
    """With all other robots under one name: thousands of names times thousands of rules would take minutes to parse."""
    return "\n".join(map(_renamed, text.removeprefix("\ufeff").splitlines()))


def _renamed(line: str) -> str:
    agent = _AGENT_LINE.match(line)
    if agent is None:
        return line
    name = agent["name"].strip().lower().partition("/")[0]
    if name == "*":
        return line
    return _FOR_US if name == PRODUCT.lower() else _FOR_ANOTHER


def _judge(rules: str, url: str) -> tuple[bool, float | None]:
    parsed = Protego.parse(rules)
    return parsed.can_fetch(url, PRODUCT), parsed.crawl_delay(PRODUCT)
