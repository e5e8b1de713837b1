"""A process of ours for work that would hold up the event loop, or that might end the process it runs in."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from telegram_assistant.embedded.process import die_with_parent
from telegram_assistant.errors import Retry
from telegram_assistant.metrics import WORKER_DEATHS

MOST_ANSWER = 8 * 2**20
GRACE = 3.0  # seconds to end by itself


class Worker:
    """`python -m module`, started at the first request and again after its death; one request at a time.

    A process of its own and not a pool of `concurrent.futures`: that cannot end a job that takes too long.
    """

    def __init__(self, module: str, *, limit: float) -> None:
        self._module = module
        self._limit = limit
        self._name = module.rpartition(".")[2]
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else None

    async def start(self) -> None:
        """Start it before the first request, which then need not wait for its imports."""
        async with self._turn:
            await self._running()

    async def ask(self, request: bytes) -> bytes:
        """Its answer. Raises Retry when it died or took too long; it is ended then, and the next gets another."""
        async with self._turn:
            process = await self._running()
            answered = False
            try:
                async with asyncio.timeout(self._limit):
                    answer = await _exchange(process, request)
                answered = True
            except TimeoutError as exc:
                WORKER_DEATHS.labels(self._name, "too_slow").inc()
                raise Retry(f"{self._name} took longer than {self._limit:g} s and was ended") from exc
            except (asyncio.IncompleteReadError, ConnectionError, ValueError) as exc:
                WORKER_DEATHS.labels(self._name, "died").inc()
                raise Retry(f"{self._name} died over this request ({await self._end()})") from exc
            finally:
                if not answered:  # also when cancelled: the late answer would be taken for the next one's
                    await self._end()
            return answer

    async def close(self) -> None:
        """End it; at once if it is busy."""
        self._closed = True
        if self._turn.locked() and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        async with self._turn:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), GRACE)
            await self._end()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise Retry(f"{self._name} is being shut down")
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", self._module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us, who end it in order
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        return self._process

    async def _end(self) -> str:
        """Kill it if need be, and say how it ended."""
        process, self._process = self._process, None
        if process is None:
            return "it was ended"
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # Only after the pipes are drained does asyncio let go of them.
        await process.communicate()
        return f"exit code {process.returncode}"


async def _exchange(process: asyncio.subprocess.Process, request: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise ConnectionError("the process has no pipes")
    process.stdin.write(len(request).to_bytes(4, "big"))
    process.stdin.write(request)
    await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(4), "big")
    if length > MOST_ANSWER:
        raise ValueError(f"an answer of {length} bytes is none of ours")
    return await process.stdout.readexactly(length)
