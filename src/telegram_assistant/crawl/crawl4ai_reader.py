"""The page reader with Crawl4AI in place of trafilatura: the same fetcher and limits, another reading of the HTML.

Crawl4AI's own fetching (its HTTP strategy or a browser) is not used: neither checks addresses, and a page in a browser
asks for whatever its scripts like.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from telegram_assistant.crawl.fetcher import Fetcher
from telegram_assistant.crawl.pool import Pool, worker_command
from telegram_assistant.crawl.reader import Manners, WebReader
from telegram_assistant.crawl.robots import Robots
from telegram_assistant.domain.urls import NOBODY, Allowance
from telegram_assistant.errors import Fatal


def is_installed() -> bool:
    return find_spec("crawl4ai") is not None


def open_crawl4ai_reader(
    fetcher: Fetcher,
    robots: Robots,
    *,
    clock: Callable[[], datetime],
    manners: Manners | None = None,
    allow: Allowance = NOBODY,
    size: int = 1,
    seconds: float = 10.0,
) -> WebReader:
    """As `reader.open_reader`. Raises Fatal when the extra is not installed."""
    pool = Crawl4aiPool(size=size, seconds=seconds)
    return WebReader(fetcher, robots, pool, clock=clock, manners=manners, allow=allow)


class Crawl4aiPool(Pool):
    """Processes with Crawl4AI, and the folder it insists on; pages are not kept there."""

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
