"""The site with the public previews: where it is asked, how often, and when it is left alone for a while.

One visitor with one name, a pause between requests, and a longer one after each sign that we are not welcome: this is
the same to a site what a budget is to an account.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol
from urllib.parse import urlsplit

from telegram_assistant.domain.retries import Backoff, Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import FLOODS, REQUESTS

PREVIEW = "preview"  # what it is called beside accounts
PAGE, FILE = "preview.page", "preview.file"
FILE_PAUSE = 0.2  # files are on other hosts, which send them to every visitor of a page
PATIENCE = 60.0  # seconds that a request waits for its turn
BACKOFF = Backoff(base=30, factor=2, cap=3600)
RED_AFTER = 300.0  # a longer wait shows in health
STAY = 600.0  # seconds for which the next host is asked first, after one was away
UNWELCOME = frozenset({403, 418, 420, 429})
GONE = frozenset({404, 410})
AWAY = 500  # this status and those above it

log = get_logger(__name__)


class Unreachable(Exception):
    """No answer came: another host may give one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the site said, where its redirects ended."""

    status: int
    body: bytes = b""
    wait: float | None = None  # seconds that it asks for
    trouble: str = ""


class Asker(Protocol):
    """A guarded request: no private addresses, limits on time and size."""

    async def __call__(self, url: str, *, file: bool = False) -> Answer:
        """Raises Unreachable."""
        ...


class PreviewSite:
    """One per process, for all channels."""

    def __init__(
        self,
        ask: Asker,
        hosts: Sequence[str],
        *,
        pause: float = 1.0,
        ticks: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ask = ask
        self._hosts = [host if "://" in host else f"https://{host}" for host in hosts]
        self._pause = pause
        self._ticks = ticks
        self._sleep = sleep
        self._free_at: dict[str, float] = {}  # by host, when the next request may be made
        self._away: dict[str, float] = {}  # hosts that did not answer, and until when others go first
        self._closed_until = 0.0
        self._refusals = 0

    @property
    def closed_for(self) -> float:
        """Seconds for which nothing may be asked."""
        return max(0.0, self._closed_until - self._ticks())

    async def report(self) -> dict[str, Any]:
        """For health: whether it lets us in."""
        seconds = self.closed_for
        error = f"the site of public previews makes us wait for {seconds / 60:.0f} min" if seconds > RED_AFTER else None
        return {"status": "degraded" if error else "ok", "error": error, "waits_seconds": round(seconds)}

    async def page(self, path: str) -> bytes:
        """A page, from the first host that answers. Raises SourceError."""
        troubles = []
        for host in sorted(self._hosts, key=lambda host: self._away.get(host, 0.0) > self._ticks()):
            try:
                answer = await self._asked(f"{host}{path}", PAGE, self._pause)
            except Unreachable as exc:
                answer = Answer(status=AWAY, trouble=str(exc))
            if answer.status >= AWAY:
                self._away[host] = self._ticks() + STAY
                troubles.append(f"{host} {answer.trouble or f'answers {answer.status}'}")
                continue
            if answer.status in UNWELCOME:
                raise self.refused(f"it answers {answer.status}", answer.wait)
            if answer.status in GONE:
                raise SourceError(Failure.GONE, f"no channel has this name: {path} is not there")
            return answer.body
        raise SourceError(Failure.TRANSIENT, f"no connection to public previews: {'; '.join(troubles)}")

    async def file(self, url: str) -> bytes | None:
        """A file; None where its address is not valid any more. Raises SourceError."""
        try:
            answer = await self._asked(url, FILE, FILE_PAUSE)
        except Unreachable as exc:
            raise SourceError(Failure.TRANSIENT, f"no connection to a file of a public preview: {exc}") from exc
        if answer.status in {*GONE, 403}:
            return None
        if answer.status >= 400:
            raise SourceError(Failure.TRANSIENT, f"the host of the file answers {answer.status}")
        return answer.body

    def welcome(self) -> None:
        """A page came as it should."""
        self._refusals = 0

    def refused(self, why: str, wait: float | None = None) -> SourceError:
        """Leave the site alone: so long as it asks for, or longer with every time."""
        self._refusals += 1
        seconds = wait or BACKOFF.delay(self._refusals)
        self._closed_until = max(self._closed_until, self._ticks() + seconds)
        FLOODS.labels(PREVIEW, PAGE).inc()
        log.warning("previews_refused", reason=why, seconds=round(seconds), times=self._refusals)
        return self._flood(why)

    def _flood(self, why: str) -> SourceError:
        text = f"the site of public previews asks to wait {self.closed_for:.0f} s: {why}"
        return SourceError(Failure.FLOOD, text, flood_seconds=self.closed_for)

    async def _asked(self, url: str, method: str, pause: float) -> Answer:
        await self._turn(urlsplit(url).netloc, pause)
        if self.closed_for:
            raise self._flood("it was asked too often")
        REQUESTS.labels(PREVIEW, method).inc()
        return await self._ask(url, file=method == FILE)

    async def _turn(self, host: str, pause: float) -> None:
        now = self._ticks()
        turn = max(now, self._free_at.get(host, 0.0))
        if turn - now > PATIENCE:
            raise SourceError(Failure.FLOOD, f"many wait for {host}", flood_seconds=turn - now)
        self._free_at[host] = turn + pause
        if turn > now:
            await self._sleep(turn - now)
