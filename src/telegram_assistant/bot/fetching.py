"""Updates from Telegram into the inbox, by long polling. By webhook http/api/bot.py puts them there."""

from __future__ import annotations

import asyncio
from typing import Any

from aiogram import Bot
from aiogram.exceptions import (
    TelegramAPIError,
    TelegramConflictError,
    TelegramNotFound,
    TelegramUnauthorizedError,
)
from aiogram.methods import TelegramMethod

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.services.bot_state import Inbox

ALLOWED = ["message", "callback_query", "inline_query", "my_chat_member"]
POLL_SECONDS = 25
PATIENCE = 15  # seconds beyond that, for the network
AT_ONCE = 100
CONFLICT = (
    "another program asks Telegram for the messages of this bot: stop it, or give this installation a bot of its own"
    " (TELEGRAM_BOT_TOKEN)"
)
WRONG_TOKEN = "Telegram does not know TELEGRAM_BOT_TOKEN: ask @BotFather for the bot's token"  # noqa: S105 - a sentence


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
