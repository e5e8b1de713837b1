"""Updates of the bot: long polling puts them into the inbox (webhooks: http/api/bot.py), and they are answered.

One process at a time answers. Many people are answered at once, each in the order in which they wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiogram import Bot
from aiogram.exceptions import (
    TelegramAPIError,
    TelegramConflictError,
    TelegramNotFound,
    TelegramUnauthorizedError,
)
from aiogram.methods import TelegramMethod

from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.log import get_logger
from telegram_assistant.services.bot_state import Inbox, update_in

ALLOWED = ["message", "callback_query", "inline_query", "my_chat_member"]
POLL_SECONDS = 25
PATIENCE = 15  # seconds beyond that, for the network
AT_ONCE = 100
CONFLICT = (
    "another program asks Telegram for the messages of this bot: stop it, or give this installation a bot of its own"
    " (TELEGRAM_BOT_TOKEN)"
)
WRONG_TOKEN = "Telegram does not know TELEGRAM_BOT_TOKEN: ask @BotFather for the bot's token"  # noqa: S105 - a sentence
ANSWERS_AT_ONCE = 16  # updates
LOOK_SECONDS = 2  # that we wait for an update before we look up
GRACE_SECONDS = 10.0  # for answers that are being written when we are stopped
LOCK_TTL = 30.0
LOCK_PAUSE = 5.0

log = get_logger(__name__)
Answer = Callable[[dict[str, Any]], Awaitable[None]]


class GetRawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """As they come: an update that this version of the library cannot read must not keep all others away."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    limit: int = AT_ONCE
    timeout: int = POLL_SECONDS
    allowed_updates: list[str] = ALLOWED


class Fetching:
    """While it is this process's turn."""

    def __init__(self, bot: Bot, inbox: Inbox, turn: asyncio.Event, *, poll_seconds: int = POLL_SECONDS) -> None:
        self._bot = bot
        self._inbox = inbox
        self._turn = turn
        self._poll = poll_seconds

    async def run(self, task: Task) -> None:
        """The job of a supervised task."""
        task.ready()
        confirmed: int | None = None
        while True:
            await self._turn.wait()
            confirmed = await self.once(confirmed)
            task.progress()

    async def once(self, confirmed: int | None) -> int | None:
        """Wait for updates and write them down. Comes back: what to confirm with the next call."""
        request = GetRawUpdates(offset=confirmed, timeout=self._poll)
        try:
            updates = await self._bot(request, request_timeout=self._poll + PATIENCE)
        except TelegramConflictError as exc:
            raise Retry(CONFLICT) from exc
        except (TelegramUnauthorizedError, TelegramNotFound) as exc:
            raise Retry(WRONG_TOKEN) from exc
        for update in updates:
            await self._inbox.put(update)
        # An offset is sent once: after a week without news the numbers begin anew, maybe below it.
        return max((int(update["update_id"]) for update in updates), default=-1) + 1 or None


async def introduce(bot: Bot) -> str:
    """Who the bot is. Raises Fatal for a token that Telegram does not know, Retry when it does not answer."""
    try:
        me = await bot.get_me()
    except (TelegramUnauthorizedError, TelegramNotFound) as exc:
        raise Fatal(WRONG_TOKEN) from exc
    except TelegramAPIError as exc:
        raise Retry(f"Telegram's Bot API does not answer: {exc}") from exc
    return me.username or ""


class UpdateWorker:
    """The job of a supervised task. `turn` is set while this process is the one that speaks for the bot."""

    def __init__(self, inbox: Inbox, lock: Lock, answer: Answer, *, pause: float = LOCK_PAUSE) -> None:
        self._inbox = inbox
        self._lock = lock
        self._answer = answer
        self._pause = pause
        self.turn = asyncio.Event()
        self._room = asyncio.Semaphore(ANSWERS_AT_ONCE)
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
