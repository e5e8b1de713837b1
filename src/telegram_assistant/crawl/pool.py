"""Processes that take pages apart: a page that hangs or crashes its process costs that process and nothing else."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from telegram_assistant.crawl.reading import LONGEST_ANSWER, SIZE, SIZES, Extracted, Job
from telegram_assistant.errors import Retry, Skip
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import CRAWL_READERS_LOST

START_SECONDS, DYING_SECONDS = 60.0, 5.0
MEGABYTES = {"trafilatura": 1536, "crawl4ai": 4096}

log = get_logger(__name__)


def worker_command(engine: str) -> tuple[str, ...]:
    """-P: nothing is imported from the folder we happen to be in."""
    return (sys.executable, "-P", "-m", "telegram_assistant.crawl.worker", engine, str(MEGABYTES[engine]))


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
        # Not ours: there are secrets in it, and the HTML of strangers near it.
        self._env = {"LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", **(env or {})}
        self._seats = asyncio.Semaphore(size)
        self._seconds = seconds
        self._pages = pages
        self._longest = longest
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    async def extract(self, body: bytes, *, url: str, kind: str, charset: str) -> Extracted:
        """Raises Skip when this page cannot be taken apart, Retry when no page can."""
        job = Job(url=url, kind=kind, charset=charset, longest=self._longest, seconds=self._seconds)
        async with self._seats:
            if self._idle:
                with suppress(_Died):  # perhaps of something else than this page: a fresh process will tell
                    return await self._use(self._idle.pop(), job, body)
            try:
                return await self._use(await self._start(), job, body)
            except _Died as exc:
                log.warning("page_reader_crashed", url=url, words=str(exc))
                raise Skip(f"the page crashed its reader: {exc}") from exc

    async def close(self) -> None:
        self._idle.clear()
        for worker in tuple(self._all):
            await self._end(worker)

    async def _use(self, worker: _Worker, job: Job, body: bytes) -> Extracted:
        unharmed = False
        try:
            async with asyncio.timeout(self._seconds):
                extracted = await worker.ask(job, body)
            unharmed = True
        except TimeoutError as exc:
            CRAWL_READERS_LOST.labels("timeout").inc()
            raise Skip(f"the page could not be read within {self._seconds:g} s") from exc
        except (EOFError, OSError) as exc:
            CRAWL_READERS_LOST.labels("crash").inc()
            raise _Died(await worker.last_words()) from exc
        except ValueError as exc:  # msgspec's among them
            CRAWL_READERS_LOST.labels("nonsense").inc()
            raise Skip("the page confused its reader") from exc
        finally:
            if unharmed and worker.answered < self._pages:
                self._idle.append(worker)
            else:
                await self._end(worker)
        return extracted

    async def _start(self) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._env,
            start_new_session=True,  # Ctrl-C is ours
        )
        worker = _Worker(process)
        self._all.add(worker)
        ready = False
        try:
            async with asyncio.timeout(START_SECONDS):
                await worker.ready()
            ready = True
        except (TimeoutError, EOFError, OSError) as exc:
            raise Retry(f"the page reader does not start: {await worker.last_words()}") from exc
        finally:
            if not ready:
                await self._end(worker)
        return worker

    async def _end(self, worker: _Worker) -> None:
        self._all.discard(worker)
        await worker.kill()


class _Died(Exception):
    """The process is gone; the message is its last line."""


class _Worker:
    """One process and its pipes."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None  # noqa: S101 - it was started with these pipes
        assert process.stdout is not None  # noqa: S101 - as above
        self._process, self._jobs, self._answers = process, process.stdin, process.stdout
        self.answered = 0

    async def ready(self) -> None:
        await self._answers.readexactly(SIZE.size)

    async def ask(self, job: Job, body: bytes) -> Extracted:
        packed = msgspec.json.encode(job)
        self._jobs.writelines((SIZES.pack(len(packed), len(body)), packed, body))
        await self._jobs.drain()
        (size,) = SIZE.unpack(await self._answers.readexactly(SIZE.size))
        if size > LONGEST_ANSWER:
            raise ValueError(f"an answer of {size} bytes")
        answer = await self._answers.readexactly(size)
        self.answered += 1
        return msgspec.json.decode(answer, type=Extracted)

    async def kill(self) -> bytes:
        """End it, whatever it does, and return what it said on stderr."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._jobs.close()
        _, said = await self._process.communicate()
        return said

    async def last_words(self) -> str:
        """Of a process whose pipe broke. It may die in peace: to signal the dead takes their status from asyncio."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), DYING_SECONDS)
        lines = (await self.kill()).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else f"exit status {self._process.returncode}"
