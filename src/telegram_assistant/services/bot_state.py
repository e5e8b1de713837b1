"""What the bot remembers of people between two messages: language, whether it is blocked, pages of a search."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable
from datetime import timedelta
from enum import StrEnum
from typing import Any, cast
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from telegram_assistant.domain.results import Sort
from telegram_assistant.errors import Retry
from telegram_assistant.i18n import LANGUAGES
from telegram_assistant.log import get_logger
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
        found = text_of(await cast("Awaitable[str | None]", self._redis.hget(person_key(user_id), "language")))
        return found if found in LANGUAGES else "ru"

    async def speaks(self, user_id: UUID, telegram_language: str | None) -> str:
        """The chosen language, else that of the application, which is remembered."""
        key = person_key(user_id)
        told = await cast("Awaitable[list[str | None]]", self._redis.hmget(key, ["chosen", "language", "blocked"]))
        chosen, known, blocked = (text_of(one) for one in told)
        language = chosen if chosen in LANGUAGES else language_of(telegram_language)
        if language != known:
            await self._redis.hset(key, "language", language)
        if blocked is not None:  # a user who writes has not blocked us
            await self.blocks(user_id, blocked=False)
        return language

    async def bot_username(self, bot_id: int) -> str | None:
        """None: the bot has not run yet."""
        return text_of(await self._redis.get(username_key(bot_id)))

    async def choose(self, user_id: UUID, language: str) -> None:
        for field in ("chosen", "language"):
            await self._redis.hset(person_key(user_id), field, language)

    async def blocks(self, user_id: UUID, *, blocked: bool) -> None:
        key = person_key(user_id)
        if blocked:
            await self._redis.hset(key, "blocked", "1")
        else:
            await self._redis.hdel(key, "blocked")

    async def has_blocked(self, user_id: UUID) -> bool:
        return bool(await self._redis.hexists(person_key(user_id), "blocked"))

    async def forget(self, user_id: UUID) -> None:
        """The bot forgets a user who is not linked any more."""
        await self._redis.delete(person_key(user_id), expected_key(user_id))

    async def expect(self, user_id: UUID, what: Expected) -> None:
        await self._redis.set(expected_key(user_id), what, ex=EXPECTED_LASTS)

    async def expected(self, user_id: UUID) -> Expected | None:
        """What this message is, if we asked for something. It is asked for once."""
        found = text_of(await self._redis.getdel(expected_key(user_id)))
        return Expected(found) if found in set(Expected) else None

    async def keep_search(self, user_id: UUID, turning: Turning, token: str | None = None) -> str:
        """The token that finds it again; `token`: in place of the one kept under it."""
        token = token or secrets.token_urlsafe(9)
        await self._redis.set(search_key(user_id, token), msgspec.json.encode(turning), ex=SEARCH_LASTS)
        return token

    async def kept_search(self, user_id: UUID, token: str) -> Turning | None:
        """Only one's own. None: too long ago."""
        found = text_of(await self._redis.get(search_key(user_id, token)))
        try:
            return None if found is None else msgspec.json.decode(found, type=Turning)
        except msgspec.DecodeError:
            return None


def language_of(telegram_language: str | None) -> str:
    """Our language for one of Telegram's codes. Its users read Russian first."""
    code = (telegram_language or "ru").lower().partition("-")[0]
    return "ru" if code in _RUSSIAN else "en"


REMEMBERED = 26 * 3600  # seconds; Telegram keeps an update for 24 hours
MOST_WAITING = 10_000
MOST_TRIES = 3  # an update in whose midst this many processes died is left alone

# Arguments: the update, how long to remember it, how many may wait. -1: full, 0: known, 1: taken.
_PUT = """
if redis.call('LLEN', KEYS[2]) >= tonumber(ARGV[3]) then return -1 end
if not redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[2]) then return 0 end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1
"""

log = get_logger(__name__)


class Inbox:
    """A list of updates and a list of those in work."""

    def __init__(self, redis: Redis, bot_id: int) -> None:
        self._redis = redis
        self._bot_id = bot_id
        self._inbox, self._in_work = inbox_key(bot_id), in_work_key(bot_id)
        self._put = redis.register_script(_PUT)

    async def put(self, update: dict[str, Any]) -> bool:
        """False: it was here before. Raises Retry when too many wait."""
        known = seen_key(self._bot_id, int(update["update_id"]))
        entry = json.dumps({"tries": 0, "update": update}, ensure_ascii=True)
        done = int(await self._put(keys=[known, self._inbox], args=[entry, REMEMBERED, MOST_WAITING]))
        if done < 0:
            raise Retry("too many messages to the bot are waiting", after=5)
        return bool(done)

    async def take(self, *, wait: int) -> str | None:
        """The next entry, waited for so many seconds; it is in work until it is done."""
        return text_of(
            await cast(
                "Awaitable[str | None]", self._redis.blmove(self._inbox, self._in_work, wait, src="LEFT", dest="RIGHT")
            )
        )

    async def done(self, entry: str) -> None:
        await self._redis.lrem(self._in_work, 1, entry)

    async def recover(self) -> int:
        """Put what a process left half done to the front again, in order. Only where one process works."""
        left = await cast("Awaitable[list[str]]", self._redis.lrange(self._in_work, 0, -1))
        for entry in reversed(left):
            again = _once_more(entry)
            async with self._redis.pipeline(transaction=True) as pipe:
                if again is not None:
                    _ = pipe.lpush(self._inbox, again)
                else:
                    log.error("bot_update_given_up", entry=entry[:500])
                _ = pipe.lrem(self._in_work, 1, entry)
                await pipe.execute()
        return len(left)


def update_in(entry: str) -> dict[str, Any]:
    update: dict[str, Any] = json.loads(entry)["update"]
    return update


def _once_more(entry: str) -> str | None:
    known = json.loads(entry)
    tries = int(known["tries"]) + 1
    return json.dumps({**known, "tries": tries}, ensure_ascii=True) if tries < MOST_TRIES else None


# Keys of Redis. What belongs to a person carries their id in its name, so that it goes with them.


def inbox_key(bot_id: int) -> str:
    """Updates that wait for an answer."""
    return f"bot:{bot_id}:inbox"


def in_work_key(bot_id: int) -> str:
    """Updates that are being answered; after a crash they go back."""
    return f"bot:{bot_id}:in_work"


def seen_key(bot_id: int, update_id: int) -> str:
    """An update that came before: Telegram sends one again when it is not sure that we have it."""
    return f"bot:{bot_id}:seen:{update_id}"


def holder_key(bot_id: int) -> str:
    """Which process speaks with Telegram for this bot."""
    return f"bot:{bot_id}:holder"


def alerts_key(bot_id: int) -> str:
    """Up to where alerts were told."""
    return f"bot:{bot_id}:alerts"


def username_key(bot_id: int) -> str:
    """How people find the bot, for the page that shows codes."""
    return f"bot:{bot_id}:username"


def code_key(digest: str) -> str:
    return f"bot:code:{digest}"


def user_code_key(user_id: UUID) -> str:
    """The code that a user has now: a new one replaces it."""
    return f"bot:code_of:{user_id}"


def person_key(user_id: UUID) -> str:
    """The language that a user speaks with the bot, and whether the bot is blocked."""
    return f"bot:person:{user_id}"


def expected_key(user_id: UUID) -> str:
    """The question that the next message of a user answers."""
    return f"bot:expected:{user_id}"


def search_key(user_id: UUID, token: str) -> str:
    """A search whose pages a user turns."""
    return f"bot:search:{user_id}:{token}"
