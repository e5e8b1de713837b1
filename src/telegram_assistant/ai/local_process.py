"""The one worker process with the local models: started when first needed, replaced when it dies, gone when closed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from telegram_assistant.ai.local_requests import (
    HEADER,
    LARGEST_FRAME,
    AnswerFound,
    AnswerQuestion,
    Call,
    EmbedTexts,
    Failure,
    Outcome,
    TagsFound,
    TagText,
    Vectors,
    framed,
)
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import WORKER_DEATHS

_WORKER = ("-m", "telegram_assistant.ai.local_worker")
_GRACE = 3.0  # seconds for the worker to end by itself
_logger = get_logger(__name__)


class ModelProcess:
    """Calls of the worker, one at a time: it has one core, and answers in order."""

    def __init__(
        self, topics: Path | None = None, *, call_seconds: float = 120.0, start_seconds: float = 180.0
    ) -> None:
        self._command: Sequence[str] = (sys.executable, *_WORKER, *([] if topics is None else [str(topics)]))
        self._call_seconds = call_seconds
        self._start_seconds = start_seconds
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._number = 0
        self._length: int | None = None  # of the frame whose header was read already
        self._closed = False
        self._decoder = msgspec.msgpack.Decoder(Outcome)

    @property
    def pid(self) -> int | None:
        """Of the worker, while there is one."""
        return None if self._process is None else self._process.pid

    async def call(self, request: TagText | EmbedTexts | AnswerQuestion) -> TagsFound | Vectors | AnswerFound:
        """Raises Retry when the worker died or hangs, Reject when the models fail on this input."""
        async with self._turn:
            if self._closed:
                raise Retry("the local models are closed: the service is stopping")
            try:
                result = await self._exchange(request)
            except (TimeoutError, EOFError, OSError, msgspec.DecodeError) as exc:
                WORKER_DEATHS.labels("local_worker", "too_slow" if isinstance(exc, TimeoutError) else "died").inc()
                await self._end(gently=False)
                raise Retry(
                    f"the worker with the local models is away ({type(exc).__name__} {exc})", after=1.0
                ) from exc
        if isinstance(result, Failure):
            _logger.error("a local model failed", reason=result.reason, traceback=result.traceback)
            raise Reject(f"the local model cannot read this: {result.reason}")
        return result

    async def close(self) -> None:
        """End the worker; further calls are refused."""
        self._closed = True
        if self._turn.locked() and self._process is not None:  # nobody waits for what it is doing
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        async with self._turn:
            await self._end(gently=True)

    async def _exchange(
        self, request: TagText | EmbedTexts | AnswerQuestion
    ) -> TagsFound | Vectors | AnswerFound | Failure:
        process = self._process or await self._start()
        self._number += 1
        async with asyncio.timeout(self._call_seconds):
            if process.stdin is None:
                raise EOFError
            process.stdin.write(framed(Call(self._number, request)))
            await process.stdin.drain()
            return await self._outcome(process, self._number)

    async def _start(self) -> asyncio.subprocess.Process:
        # Texts of strangers are read there, so it gets none of our secrets; one thread, for more only heat the cores.
        environment = {
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        self._length = None
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is ours; the worker ends when we close its input
        )
        _logger.info("the worker with the local models starts", pid=process.pid)
        async with asyncio.timeout(self._start_seconds):
            await self._outcome(process, 0)
        return process

    async def _outcome(
        self, process: asyncio.subprocess.Process, number: int
    ) -> TagsFound | Vectors | AnswerFound | Failure:
        """The answer of that number; those that a cancelled caller left behind are passed over."""
        while True:
            outcome = await self._frame(process)
            if outcome.number == number:
                return outcome.result

    async def _frame(self, process: asyncio.subprocess.Process) -> Outcome:
        # The length is kept, so that a caller cancelled between header and body leaves the next one a whole frame.
        if process.stdout is None:
            raise EOFError
        if self._length is None:
            self._length = int.from_bytes(await process.stdout.readexactly(HEADER), "big")
        if self._length > LARGEST_FRAME:
            raise EOFError("it writes nonsense")
        body = await process.stdout.readexactly(self._length)
        self._length = None
        return self._decoder.decode(body)

    async def _end(self, *, gently: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            if gently:
                await asyncio.wait_for(process.wait(), _GRACE)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
