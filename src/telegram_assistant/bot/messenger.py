"""Sending through the Bot API, with what can go wrong there turned into ours (STYLE 3).

Too fast (429): waited for, or Retry with the time that Telegram names. Blocked (403): `Gone`. Too long: in pieces. Bad
markup: once more as plain text. Away: tried again, then Retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from aiogram import Bot
from aiogram.client.default import DefaultBotProperties
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import PRODUCTION, TelegramAPIServer
from aiogram.enums import ParseMode
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.methods import TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import InlineKeyboardMarkup, LinkPreviewOptions
from aiogram.utils.token import TokenValidationError

from telegram_assistant.bot.splitting import LONGEST, plain, split_html
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.log import get_logger

ATTEMPTS = 4
LONGEST_WAIT = 20.0  # seconds that we wait here; for longer ones the caller does
FIRST_PAUSE = 0.5
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)

log = get_logger(__name__)
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Gone(Exception):
    """Nobody can be reached in this chat: it was blocked, deleted, or never begun."""


class QuietSession(AiohttpSession):
    """The token is part of every address: no error may quote one (LESSONS 24)."""

    async def make_request(
        self,
        bot: Bot,
        method: TelegramMethod[TelegramType],
        timeout: int | None = None,  # noqa: ASYNC109 - its name there
    ) -> TelegramType:
        try:
            return await super().make_request(bot, method, timeout)
        except TelegramNetworkError as exc:
            said = exc.message.replace(bot.token, "…")
        raise TelegramNetworkError(method=method, message=said)


def open_bot(token: str, api_url: str | None, *, timeout: float = 60.0) -> Bot:
    """Nothing is connected yet; close its session."""
    server = TelegramAPIServer.from_base(api_url) if api_url else PRODUCTION
    try:
        return Bot(
            token,
            session=QuietSession(api=server, timeout=timeout),
            default=DefaultBotProperties(parse_mode=ParseMode.HTML, link_preview=NO_PREVIEW),
        )
    except TokenValidationError:
        raise Fatal("TELEGRAM_BOT_TOKEN is no token: it looks like 123456:ABC…; @BotFather gives you one") from None


class Messenger:
    """Writes to chats. The markup is ours, with everything from posts escaped."""

    def __init__(self, bot: Bot, *, sleep: Sleep = asyncio.sleep) -> None:
        self.bot = bot
        self._sleep = sleep

    async def send(self, chat_id: int, html: str, keyboard: InlineKeyboardMarkup | None = None) -> None:
        """In as many messages as it takes; buttons are under the last. Raises Gone, or Retry."""
        await self._send(chat_id, split_html(html), keyboard)

    async def _send(self, chat_id: int, pieces: list[str], keyboard: InlineKeyboardMarkup | None) -> None:
        for number, piece in enumerate(pieces, 1):
            under = keyboard if number == len(pieces) else None
            try:
                await self._patiently(partial(self._message, chat_id, piece, under))
            except TelegramBadRequest as exc:
                if _is_gone(exc):
                    raise Gone(exc.message) from exc
                await self._otherwise(chat_id, piece, under, exc)

    async def _otherwise(
        self, chat_id: int, piece: str, keyboard: InlineKeyboardMarkup | None, refusal: TelegramBadRequest
    ) -> None:
        """Not as it was: shorter, or without markup."""
        if "too long" in refusal.message.lower() and len(halves := split_html(piece, limit=LONGEST // 2)) > 1:
            log.warning("bot_message_too_long", length=len(piece))
            await self._send(chat_id, halves, keyboard)
            return
        if "parse" not in refusal.message.lower():
            raise refusal
        log.warning("bot_markup_refused", error=refusal.message)
        await self._patiently(lambda: self._message(chat_id, plain(piece), keyboard, parse_mode=None))

    async def edit(
        self, chat_id: int, message_id: int, html: str, keyboard: InlineKeyboardMarkup | None = None
    ) -> None:
        """Put this in place of a message of ours; if that cannot be, send it. Raises Gone, or Retry."""
        pieces = split_html(html)
        if len(pieces) != 1:
            await self.send(chat_id, html, keyboard)
            return
        try:
            await self._patiently(
                lambda: self.bot.edit_message_text(
                    pieces[0], chat_id=chat_id, message_id=message_id, reply_markup=keyboard
                )
            )
        except TelegramBadRequest as exc:
            if "not modified" not in exc.message:
                await self.send(chat_id, html, keyboard)

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T | None:
        """Something that is no loss when it is too late for it: the answer to a button or to an inline query."""
        try:
            return await self._patiently(request)
        except TelegramBadRequest as exc:
            log.info("bot_answer_too_late", error=exc.message)
            return None

    async def _message(
        self, chat_id: int, text: str, keyboard: InlineKeyboardMarkup | None, parse_mode: str | None = ParseMode.HTML
    ) -> object:
        return await self.bot.send_message(chat_id, text, reply_markup=keyboard, parse_mode=parse_mode)

    async def _patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await request()
            except TelegramRetryAfter as exc:
                wait, reason = float(exc.retry_after), f"Telegram wants us to wait {exc.retry_after} s"
                if attempt == ATTEMPTS or wait > LONGEST_WAIT:
                    raise Retry(reason, after=wait) from exc
            except TelegramForbiddenError as exc:
                raise Gone(exc.message) from exc
            except (TelegramNetworkError, TelegramServerError, ClientDecodeError) as exc:
                wait = FIRST_PAUSE * 2.0 ** (attempt - 1)
                if attempt == ATTEMPTS:
                    raise Retry(f"Telegram's Bot API does not answer: {exc}") from exc
            await self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")


def _is_gone(exc: TelegramBadRequest) -> bool:
    return any(words in exc.message.lower() for words in ("chat not found", "user not found", "peer_id_invalid"))
