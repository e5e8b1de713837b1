"""Audits that a person asks for: the process that has the account makes them, the command waits for the finding."""

from __future__ import annotations

import asyncio
from secrets import token_hex

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.source import ReadElsewhere, SourceError
from telegram_assistant.errors import Skip
from telegram_assistant.ingest.audit import Auditor, Finding
from telegram_assistant.names import AUDITS_ASKED, audit_answer
from telegram_assistant.stores.postgres.channels import Channels

IDLE_SECONDS = 1.0
ANSWER_SECONDS = 600  # as long an answer is kept for whoever asked


class Asked(msgspec.Struct, frozen=True):
    """An audit that somebody waits for."""

    token: str
    channel_id: int


class Answer(msgspec.Struct, frozen=True):
    """What came of it."""

    finding: Finding | None = None
    error: str = ""


class AuditDesk:
    """A supervised job."""

    def __init__(self, redis: Redis, channels: Channels, auditor: Auditor) -> None:
        self._redis = redis
        self._channels = channels
        self._auditor = auditor

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.step()
            task.progress()
            await asyncio.sleep(IDLE_SECONDS)

    async def step(self) -> None:
        """One audit. What another process must read is left for it, behind what else is asked for."""
        waiting = await self._redis.lpop(AUDITS_ASKED)
        if not isinstance(waiting, str):
            return
        asked = msgspec.json.decode(waiting, type=Asked)
        try:
            answer = Answer(await self._audit(asked.channel_id))
        except ReadElsewhere:
            await self._redis.rpush(AUDITS_ASKED, waiting)
            return
        except (SourceError, Skip) as exc:
            answer = Answer(error=str(exc))
        await self._redis.set(audit_answer(asked.token), msgspec.json.encode(answer), ex=ANSWER_SECONDS)

    async def _audit(self, channel_id: int) -> Finding:
        channel = await self._channels.get(channel_id)
        if channel is None:
            raise Skip("the channel is not watched any more")
        return await self._auditor.audit(channel)


async def ask_audit(redis: Redis, channel_id: int, *, seconds: float, poll: float) -> Answer | None:
    """Ask the processes that capture, and wait; None when none of them answered in time."""
    asked = Asked(token_hex(8), channel_id)
    waiting = msgspec.json.encode(asked).decode()
    await redis.rpush(AUDITS_ASKED, waiting)
    for _ in range(int(seconds / poll)):
        told = await redis.get(audit_answer(asked.token))
        if told is not None:
            return msgspec.json.decode(told, type=Answer)
        await asyncio.sleep(poll)
    await redis.lrem(AUDITS_ASKED, 0, waiting)
    return None
