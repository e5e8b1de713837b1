"""Updates on their way: written down before Telegram forgets them, gone when they are answered, each once.

Telegram sends an update again while it does not know that we have it, for a day; what came before is not taken twice.
What a process had begun when it died goes back to the front.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any, cast

from redis.asyncio import Redis

from telegram_assistant.bot import keys
from telegram_assistant.errors import Retry
from telegram_assistant.log import get_logger
from telegram_assistant.stores.redis import text_of

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
        self._inbox, self._in_work = keys.inbox(bot_id), keys.in_work(bot_id)
        self._put = redis.register_script(_PUT)

    async def put(self, update: dict[str, Any]) -> bool:
        """False: it was here before. Raises Retry when too many wait."""
        known = keys.seen(self._bot_id, int(update["update_id"]))
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
        """What a process left in its midst, to the front again, in its order. Only for whoever is alone at work."""
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
