"""Pictures for remote models: small, plain, made in a process of its own (shrink_worker.py)."""

from __future__ import annotations

from telegram_assistant.errors import Skip
from telegram_assistant.processes.starting import our_module
from telegram_assistant.processes.worker import Worker

PICTURE, NO_PICTURE = b"+", b"-"  # how an answer of the worker begins
_LIMIT = 30.0  # seconds for one picture


class Shrinker:
    """Starts with the first picture."""

    def __init__(self) -> None:
        self._worker = Worker("shrink_worker", our_module("telegram_assistant.ai.vision.shrink_worker"), limit=_LIMIT)

    async def shrunk(self, content: bytes) -> bytes:
        """A JPEG. Raises Skip for what is no picture."""
        answer = await self._worker.ask(content)
        if not answer.startswith(PICTURE):
            raise Skip(answer[1:].decode(errors="replace"))
        return answer[1:]

    async def close(self) -> None:
        await self._worker.close()
