"""The one worker process with the local models: started when first needed, replaced when it dies, gone when closed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from telegram_assistant.ai.local_requests import (
    LARGEST_ANSWER,
    AnswerFound,
    AnswerQuestion,
    Call,
    EmbedTexts,
    Failure,
    Outcome,
    TagsFound,
    TagText,
    Vectors,
)
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.log import get_logger
from telegram_assistant.processes.starting import our_module
from telegram_assistant.processes.worker import Worker

_logger = get_logger(__name__)


class ModelProcess:
    """Calls of the worker, one at a time: it has one core, and answers in order."""

    def __init__(self, topics: Path | None = None, *, call_seconds: float = 120.0) -> None:
        arguments = [] if topics is None else [str(topics)]
        command = our_module("telegram_assistant.ai.local_worker", *arguments)
        self.worker = Worker("local_worker", command, limit=call_seconds, largest=LARGEST_ANSWER, costly=True)

    @property
    def pid(self) -> int | None:
        """Of the worker, while there is one."""
        return self.worker.pid

    async def call(self, request: TagText | EmbedTexts | AnswerQuestion) -> TagsFound | Vectors | AnswerFound:
        """Raises Retry when the worker died or hangs, Reject when the models fail on this input."""
        answer = await self.worker.ask(msgspec.msgpack.encode(Call(request)))
        try:
            result = msgspec.msgpack.decode(answer, type=Outcome).result
        except msgspec.MsgspecError as exc:
            raise Retry(f"the worker with the local models gave an answer that is none: {exc}") from exc
        if isinstance(result, Failure):
            _logger.error("a local model failed", reason=result.reason, traceback=result.traceback)
            raise Reject(f"the local model cannot read this: {result.reason}")
        return result

    async def close(self) -> None:
        """End the worker; further calls are refused."""
        await self.worker.close()
