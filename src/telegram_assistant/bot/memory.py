"""What the bot remembers of people between two messages: language, whether it is blocked, pages of a search."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from datetime import timedelta
from enum import StrEnum
from typing import cast
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bot import keys
from telegram_assistant.domain.results import Sort
from telegram_assistant.i18n import LANGUAGES
from telegram_assistant.stores.redis import text_of

EXPECTED_LASTS = timedelta(minutes=15)
SEARCH_LASTS = timedelta(days=1)
MOST_PAGES = 100
# Telegram tells the language of the application. In these countries Russian is read rather than English.
_RUSSIAN = frozenset({"ru", "be", "uk", "kk", "ky", "uz", "tg", "hy", "az", "mo"})


class Expected(StrEnum):
    """What the next message will be."""

    QUESTION = "question"
    QUERY = "query"
    CHANNEL = "channel"
    FEEDBACK = "feedback"


class Turning(msgspec.Struct, frozen=True):
    """A search and the cursors of its pages, the first of which needs none."""

    query: str
    sort: Sort = Sort.BEST
    cursors: tuple[str, ...] = ()


class Memory:
    """All of it in Redis, so that any process can go on where another stopped."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def language(self, user_id: UUID) -> str:
        """The last one spoken; for what is sent without being asked for."""
        found = text_of(await cast("Awaitable[str | None]", self._redis.hget(keys.person(user_id), "language")))
        return found if found in LANGUAGES else "ru"

    async def speaks(self, user_id: UUID, telegram_language: str | None) -> str:
        """The chosen language, else that of the application, which is remembered."""
        key = keys.person(user_id)
        told = await cast("Awaitable[list[str | None]]", self._redis.hmget(key, ["chosen", "language", "blocked"]))
        chosen, known, blocked = (text_of(one) for one in told)
        language = chosen if chosen in LANGUAGES else language_of(telegram_language)
        if language != known:
            await self._redis.hset(key, "language", language)
        if blocked is not None:  # whoever writes to us has not blocked us
            await self.blocks(user_id, blocked=False)
        return language

    async def bot_username(self, bot_id: int) -> str | None:
        """None: the bot has not run yet."""
        return text_of(await self._redis.get(keys.username(bot_id)))

    async def choose(self, user_id: UUID, language: str) -> None:
        for field in ("chosen", "language"):
            await self._redis.hset(keys.person(user_id), field, language)

    async def blocks(self, user_id: UUID, *, blocked: bool) -> None:
        key = keys.person(user_id)
        if blocked:
            await self._redis.hset(key, "blocked", "1")
        else:
            await self._redis.hdel(key, "blocked")

    async def has_blocked(self, user_id: UUID) -> bool:
        return bool(await self._redis.hexists(keys.person(user_id), "blocked"))

    async def forget(self, user_id: UUID) -> None:
        """Whoever is not linked any more is nobody to the bot."""
        await self._redis.delete(keys.person(user_id), keys.expected(user_id))

    async def expect(self, user_id: UUID, what: Expected) -> None:
        await self._redis.set(keys.expected(user_id), what, ex=EXPECTED_LASTS)

    async def expected(self, user_id: UUID) -> Expected | None:
        """What this message is, if we asked for something. It is asked for once."""
        found = text_of(await self._redis.getdel(keys.expected(user_id)))
        return Expected(found) if found in set(Expected) else None

    async def keep_search(self, user_id: UUID, turning: Turning, token: str | None = None) -> str:
        """The token that finds it again; `token`: in place of the one kept under it."""
        token = token or secrets.token_urlsafe(9)
        await self._redis.set(keys.search(user_id, token), msgspec.json.encode(turning), ex=SEARCH_LASTS)
        return token

    async def kept_search(self, user_id: UUID, token: str) -> Turning | None:
        """Only one's own. None: too long ago."""
        found = text_of(await self._redis.get(keys.search(user_id, token)))
        try:
            return None if found is None else msgspec.json.decode(found, type=Turning)
        except msgspec.DecodeError:
            return None


def language_of(telegram_language: str | None) -> str:
    """Our language for one of Telegram's codes. Its users read Russian first."""
    code = (telegram_language or "ru").lower().partition("-")[0]
    return "ru" if code in _RUSSIAN else "en"
