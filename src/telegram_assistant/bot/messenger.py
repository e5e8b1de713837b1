"""Sending through the Bot API, with what can go wrong there turned into our errors (STYLE 3).

Too fast (429): waited for, or Retry with the time that Telegram names. Blocked (403): `Gone`. Too long: in pieces, cut
at the ends of sentences, every tag closed and opened again. Bad markup: once more as plain text. Away: tried again,
then Retry.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from html import unescape
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
from aiohttp_socks import ProxyError

from telegram_assistant.domain.proxies import Proxy
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.log import get_logger

ATTEMPTS = 4
LONGEST_WAIT = 20.0  # seconds that we wait here; for longer ones the caller does
FIRST_PAUSE = 0.5
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
T = TypeVar("T")
LONGEST = 4_096  # UTF-16 units of a message, without its markup
MOST_TAGS = 90  # Telegram drops the formatting beyond a hundred

_TOKEN = re.compile(r"</?[a-z][^>]*>|&(?:#\d+|#x[0-9a-fA-F]+|[a-z]+);|[^<&]+|[<&]")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[a-z]+)[^>]*>")
_SENTENCE_END = re.compile(r"(?<=[.!?\u2026])[\"'»”)\]]*\s+|\n+")
_WORD_END = re.compile(r"\s+")

log = get_logger(__name__)
Sleep = Callable[[float], Awaitable[None]]


class Gone(Exception):
    """This chat cannot be reached: it was blocked, deleted, or never begun."""


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
        except ProxyError as exc:  # aiogram does not know this error
            said = f"the proxy did not connect us: {exc}"
        raise TelegramNetworkError(method=method, message=said)


def open_bot(token: str, api_url: str | None, *, timeout: float = 60.0, proxy: Proxy | None = None) -> Bot:
    """Nothing is connected yet; close its session. The proxy leads to Telegram's own server, not to one of yours."""
    server = TelegramAPIServer.from_base(api_url) if api_url else PRODUCTION
    try:
        return Bot(
            token,
            session=QuietSession(api=server, timeout=timeout, proxy=proxy.url if proxy and not api_url else None),
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


def plain(html: str) -> str:
    """The same without markup."""
    return unescape(_TAG.sub("", html))


def units(html: str) -> int:
    """The length of what is shown, in Telegram's way of counting."""
    text = plain(html)
    return len(text) + sum(ord(char) > 0xFFFF for char in text)


@dataclass
class _Piece:
    """A message while it grows."""

    html: str = ""
    length: int = 0
    tags: int = 0
    open: list[tuple[str, str]] = field(default_factory=list)  # (name, as it was opened)

    def fits(self, part: str, limit: int) -> bool:
        return self.length + units(part.rstrip()) <= limit and self.tags + len(_TAG.findall(part)) / 2 <= MOST_TAGS

    def add(self, part: str) -> None:
        self.html += part
        self.length += units(part)
        for tag in _TAG.finditer(part):
            if not tag["end"]:
                self.tags += 1
                self.open.append((tag["name"], tag[0]))
            elif self.open:
                self.open.pop()

    def closed(self) -> str:
        return self.html.rstrip() + "".join(f"</{name}>" for name, _ in reversed(self.open))

    def following(self) -> _Piece:
        """An empty one, inside the same tags."""
        return _Piece("".join(opening for _, opening in self.open), 0, len(self.open), list(self.open))


def split_html(html: str, *, limit: int = LONGEST) -> list[str]:
    """Well-formed markup in pieces of at most `limit`, none of them empty."""
    pieces = [_Piece()]
    for sentence in _parts(html, _SENTENCE_END):
        parts = [sentence] if units(sentence.rstrip()) <= limit else _words(sentence, limit)
        for part in parts:
            if not pieces[-1].fits(part, limit):
                pieces.append(pieces[-1].following())
            pieces[-1].add(part)
    return [piece.closed() for piece in pieces if plain(piece.html).strip()]


def _parts(html: str, ends: re.Pattern[str]) -> Iterator[str]:
    """The markup cut where its text has such ends: tags and entities belong to the part that they stand in."""
    part = ""
    for token in _TOKEN.findall(html):
        at = 0
        for end in ends.finditer(token) if not token.startswith(("<", "&")) else ():
            yield part + token[at : end.end()]
            part, at = "", end.end()
        part += token[at:]
    if part:
        yield part


def _words(sentence: str, limit: int) -> Iterator[str]:
    """A sentence that is longer than a message."""
    step = limit // 2  # a character takes two units at most
    for word in _parts(sentence, _WORD_END):
        if units(word.rstrip()) <= limit:
            yield word
            continue
        for token in _TOKEN.findall(word):  # one word without an end
            whole = token.startswith(("<", "&"))
            yield from [token] if whole else (token[at : at + step] for at in range(0, len(token), step))
