"""Pictures made small and plain in a process of its own (shrink_worker.py), for remote models and for pages."""

from __future__ import annotations

from typing import Literal

from telegram_assistant.errors import Skip
from telegram_assistant.processes.worker import Worker, our_module

PICTURE, NO_PICTURE = b"+", b"-"  # how an answer of the worker begins


class Shrinker:
    """Starts with the first picture; `limit`: seconds for one."""

    def __init__(self, what: Literal["shrink", "thumbnail"] = "shrink", *, limit: float = 30.0) -> None:
        command = our_module("telegram_assistant.ai.vision.shrink_worker", what)
        self.worker = Worker(f"{what}_worker", command, limit=limit)

    async def shrunk(self, request: bytes) -> bytes:
        """A picture. Raises Skip for what is none."""
        answer = await self.worker.ask(request)
        if not answer.startswith(PICTURE):
            raise Skip(answer[1:].decode(errors="replace"))
        return answer[1:]

    async def close(self) -> None:
        await self.worker.close()
