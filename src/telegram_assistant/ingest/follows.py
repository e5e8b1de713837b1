"""What the accounts follow, for pages and commands: the processes that capture have the accounts, and answer."""

from __future__ import annotations

import asyncio
import re
from secrets import token_hex
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.source import Followed, ReadElsewhere, SourceError
from telegram_assistant.ingest.accounts import AccountPool
from telegram_assistant.names import FOLLOWS_ASKED, follows_answer

IDLE_SECONDS = 0.5
ANSWER_SECONDS = 60
POLL_SECONDS = 0.2
BAD_LINK = "This is no link of a shared folder: it looks like https://t.me/addlist/AbCdEf123"
_SHARED = re.compile(
    r"(?:https?://)?(?:www\.)?t(?:elegram)?\.(?:me|dog)/addlist/([A-Za-z0-9_-]{4,64})/?", re.IGNORECASE
)


class Asked(msgspec.Struct, frozen=True):
    """A list that a page or a command waits for."""

    token: str
    tenant_id: UUID
    slug: str = ""  # of a shared folder; empty: all that the accounts follow


class Answer(msgspec.Struct, frozen=True):
    """What came of it."""

    followed: list[Followed] = []
    error: str = ""


class FollowDesk:
    """A supervised job."""

    def __init__(self, redis: Redis, pool: AccountPool) -> None:
        self._redis = redis
        self._pool = pool

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.step()
            task.progress()
            await asyncio.sleep(IDLE_SECONDS)

    async def step(self) -> None:
        """One list. What another process must read is left for it."""
        waiting = await self._redis.lpop(FOLLOWS_ASKED)
        if not isinstance(waiting, str):
            return
        asked = msgspec.json.decode(waiting, type=Asked)
        try:
            answer = Answer(await self._pool.followed(asked.tenant_id, asked.slug))
        except ReadElsewhere:
            await self._redis.rpush(FOLLOWS_ASKED, waiting)
            return
        except SourceError as exc:
            answer = Answer(error=str(exc))
        await self._redis.set(follows_answer(asked.token), msgspec.json.encode(answer), ex=ANSWER_SECONDS)


async def ask_follows(redis: Redis, tenant_id: UUID, slug: str, *, seconds: float) -> Answer | None:
    """None: no process that captures has answered in time."""
    asked = Asked(token_hex(8), tenant_id, slug)
    waiting = msgspec.json.encode(asked).decode()
    await redis.rpush(FOLLOWS_ASKED, waiting)
    for _ in range(int(seconds / POLL_SECONDS)):
        told = await redis.get(follows_answer(asked.token))
        if told is not None:
            return msgspec.json.decode(told, type=Answer)
        await asyncio.sleep(POLL_SECONDS)
    await redis.lrem(FOLLOWS_ASKED, 0, waiting)
    return None


def folder_of(link: str) -> str:
    """The name in the link of a shared folder; empty where there is no link. Raises ValueError."""
    found = _SHARED.fullmatch(link.strip())
    if link.strip() and found is None:
        raise ValueError(BAD_LINK)
    return found[1] if found else ""
