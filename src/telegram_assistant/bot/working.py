"""Answering: one process at a time holds the bot, many people are answered at once, each in the order they wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.errors import Retry
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.log import get_logger
from telegram_assistant.services.bot_state import Inbox, update_in

AT_ONCE = 16  # updates
LOOK_SECONDS = 2  # that we wait for an update before we look up
GRACE_SECONDS = 10.0  # for answers that are being written when we are stopped
LOCK_TTL = 30.0
LOCK_PAUSE = 5.0

log = get_logger(__name__)
Answer = Callable[[dict[str, Any]], Awaitable[None]]


class Working:
    """The job of a supervised task. `turn` is set while this process is the one that speaks for the bot."""

    def __init__(self, inbox: Inbox, lock: Lock, answer: Answer, *, pause: float = LOCK_PAUSE) -> None:
        self._inbox = inbox
        self._lock = lock
        self._answer = answer
        self._pause = pause
        self.turn = asyncio.Event()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._busy: set[asyncio.Task[None]] = set()
        self._turns: dict[int, tuple[asyncio.Lock, int]] = {}  # of a sender: whose turn, and how many wait

    async def run(self, task: Task) -> None:
        task.ready()
        while not await self._lock.hold():
            task.progress()
            await asyncio.sleep(self._pause)
        try:
            found = await self._inbox.recover()
            if found:
                log.warning("bot_updates_again", updates=found)
            self.turn.set()
            await self._run(task)
        except ExceptionGroup as exc:
            raise exc.exceptions[0] from exc
        finally:
            self.turn.clear()
            await self._lock.release()

    async def _run(self, task: Task) -> None:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep())
            try:
                while True:
                    await self._next(group)
                    task.progress()
            finally:
                if self._busy:
                    await asyncio.wait(self._busy, timeout=GRACE_SECONDS)
                keeping.cancel()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            if not await self._lock.hold():
                raise Retry("another process has taken over the bot")
            heed_stop()

    async def _next(self, group: asyncio.TaskGroup) -> None:
        await self._room.acquire()
        entry: str | None = None
        try:
            entry = await self._inbox.take(wait=LOOK_SECONDS)
        finally:
            if entry is None:
                self._room.release()
        if entry is not None:
            doing = group.create_task(self._do(entry))
            self._busy.add(doing)
            doing.add_done_callback(self._finished)

    def _finished(self, doing: asyncio.Task[None]) -> None:
        self._busy.discard(doing)
        self._room.release()

    async def _do(self, entry: str) -> None:
        update = update_in(entry)
        async with self._turn_of(sender_of(update)):
            try:
                await self._answer(update)
            except Exception:
                log.exception("bot_update_failed", update=update.get("update_id"))
            await self._inbox.done(entry)

    @asynccontextmanager
    async def _turn_of(self, sender: int) -> AsyncIterator[None]:
        lock, waiting = self._turns.get(sender, (asyncio.Lock(), 0))
        self._turns[sender] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns[sender]
            if waiting > 1:
                self._turns[sender] = (lock, waiting - 1)
            else:
                del self._turns[sender]


def sender_of(update: dict[str, Any]) -> int:
    """Whose update it is; 0 for what has no sender."""
    for part in update.values():
        if isinstance(part, dict) and isinstance(sender := part.get("from"), dict):
            return int(sender.get("id", 0))
    return 0
