"""Processes that take pages apart: a page that hangs or crashes its process costs that process and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from tempfile import TemporaryDirectory

import msgspec

from telegram_assistant.crawl.worker import LONGEST_ANSWER, Extracted, Job
from telegram_assistant.errors import Fatal, Skip
from telegram_assistant.log import get_logger
from telegram_assistant.processes.worker import Lost, Worker, our_module

CONFUSED = "the page confused its reader"
MEGABYTES = {"trafilatura": 1536, "crawl4ai": 4096}

log = get_logger(__name__)


def worker_command(engine: str) -> tuple[str, ...]:
    return our_module("telegram_assistant.crawl.worker", engine, str(MEGABYTES[engine]))


class Pool:
    """At most `size` processes, started when they are needed and replaced after `pages` pages."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        size: int = 1,
        seconds: float = 10.0,
        pages: int = 1000,
        longest: int = 100_000,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._seats = asyncio.Semaphore(size)
        self._seconds = seconds
        self._pages = pages
        self._longest = longest
        self._idle: list[Worker] = []
        self.workers: set[Worker] = set()

    async def extract(self, body: bytes, *, url: str, kind: str, charset: str) -> Extracted:
        """Raises Skip when this page cannot be taken apart, Retry when no page can."""
        job = Job(url=url, kind=kind, charset=charset, longest=self._longest)
        request = msgspec.msgpack.encode((job, body))
        async with self._seats:
            worker = self._idle.pop() if self._idle else self._new()
            fresh = worker.pid is None
            try:
                return await self._ask(worker, request)
            except Lost as exc:
                if fresh or exc.reason != "died":
                    self._blame(exc, url)
                    raise
            try:  # perhaps it died of something else than this page: a fresh process will tell
                return await self._ask(self._new(), request)
            except Lost as exc:
                self._blame(exc, url)
                raise

    async def close(self) -> None:
        self._idle.clear()
        for worker in tuple(self.workers):
            await self._end(worker)

    def _new(self) -> Worker:
        worker = Worker("page_reader", self._command, limit=self._seconds, largest=LONGEST_ANSWER, env=self._env)
        self.workers.add(worker)
        return worker

    async def _ask(self, worker: Worker, request: bytes) -> Extracted:
        unharmed = False
        try:
            extracted = msgspec.msgpack.decode(await worker.ask(request), type=Extracted)
            unharmed = True
        except msgspec.MsgspecError as exc:
            raise Skip(CONFUSED) from exc
        finally:
            if unharmed and worker.served < self._pages:
                self._idle.append(worker)
            else:
                await self._end(worker)
        return extracted

    def _blame(self, lost: Lost, url: str) -> None:
        """Raises Skip: a page is to blame for all but a reader that does not even start."""
        match lost.reason:
            case "too_slow":
                raise Skip(f"the page could not be read within {self._seconds:g} s") from lost
            case "nonsense":
                raise Skip(CONFUSED) from lost
            case "died":
                log.warning("page_reader_crashed", url=url, words=lost.words)
                raise Skip(f"the page crashed its reader: {lost.words}") from lost

    async def _end(self, worker: Worker) -> None:
        self.workers.discard(worker)
        await worker.close()


def is_installed() -> bool:
    return find_spec("crawl4ai") is not None


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
