"""Audits: read known messages again and compare. What disagrees is repaired, counted and shown.

A full audit goes through every stored post of a channel, where Telegram did not tell what changed: the newest first,
a hundred by a request, some requests at a turn, so that a large channel keeps no other waiting. Its place is kept in
PostgreSQL: any process goes on with it. Besides, every channel has a sample read again every few hours, and with it
ids that are said to be empty, in turn: a post that shows too late for any visit to read its place again is found there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from secrets import token_hex
from typing import Any

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.accounts import Priority
from telegram_assistant.domain.ledger import LedgerState, next_ids, stride
from telegram_assistant.domain.source import PAGE_LIMIT, ReadElsewhere, Source, SourceError
from telegram_assistant.errors import Skip
from telegram_assistant.ingest.origins import Readers
from telegram_assistant.ingest.pages import Memory, look_at
from telegram_assistant.ingest.saver import Saved, Saver
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import AUDIT_DISAGREEMENTS, AUDIT_WAITING, AUDITED_IDS
from telegram_assistant.names import AUDITS_ASKED, audit_answer
from telegram_assistant.stores.postgres.audits import Audit, Audits
from telegram_assistant.stores.postgres.channels import Channel, Channels

SAMPLE = PAGE_LIMIT  # one request
EMPTY_SHARE = SAMPLE // 4
TURN = 5  # requests of a full audit in a row
HOLD = timedelta(minutes=10)  # a turn is over by then, or its process is dead
AFTER_FAILURE = timedelta(minutes=5)
ELSEWHERE = timedelta(seconds=10)
IDLE_SECONDS = 2.0
ASKED_IDLE_SECONDS = 1.0
ANSWER_SECONDS = 600  # as long an answer is kept for the command

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """What an audit of one channel found. Everything counted here is repaired already."""

    audited: int
    missing: int = 0  # was there and not stored
    edited: int = 0
    deleted: int = 0

    @classmethod
    def of(cls, audited: int, saved: Saved) -> Finding:
        return cls(audited, len(saved.new) + len(saved.restored), len(saved.edited), len(saved.deleted))

    @property
    def disagreements(self) -> int:
        return self.missing + self.edited + self.deleted


class Auditor:
    """A supervised job, shared by all processes: each turn is taken by one; and one channel on demand."""

    def __init__(
        self,
        channels: Channels,
        audits: Audits,
        saver: Saver,
        readers: Readers,
        *,
        every_seconds: float,
        clock: Callable[[], datetime],
        rng: Random | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._channels = channels
        self._audits = audits
        self._saver = saver
        self._readers = readers
        self._every = timedelta(seconds=every_seconds)
        self._clock = clock
        self._rng = rng or Random()  # noqa: S311 - a sample, no secret
        self._memory = memory
        self._reached: dict[int, int] = {}  # by channel, the id up to which the empty ones were gone through

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            worked = await self.step()
            AUDIT_WAITING.set((await self._audits.waiting()).posts)
            task.progress()
            if not worked:
                await asyncio.sleep(IDLE_SECONDS)

    async def step(self) -> bool:
        """The next turn; False when no channel has one now."""
        now = self._clock()
        turn = await self._audits.take(now, HOLD, await self._readers.reach())
        if turn is None:
            return False
        channel = await self._channels.get(turn.channel_id)
        next_at = now + self._every * self._rng.uniform(0.9, 1.1)
        if channel is not None and channel.status == "active":
            try:
                if turn.wanted_at is None:
                    await self.audit(channel)
                elif await self._take_turn(channel, turn):
                    return True
                else:
                    next_at = self._clock()
            except (SourceError, Skip) as exc:
                log.warning("audit_failed", channel=channel.shown, reason=str(exc))
                next_at = self._clock() + _pause(exc)
        await self._audits.put_off(turn.channel_id, next_at)
        return True

    async def _take_turn(self, channel: Channel, turn: Audit) -> bool:
        """A turn of a full audit; True when it is through with the channel."""
        below = turn.below_id
        if turn.began_at is None:
            await self._audits.begin(channel.id, self._clock())
            below = None
        source = await self._readers.reader(channel, priority=Priority.BACKFILL)
        for _ in range(TURN):
            ids = await self._audits.stored_below(channel.id, below, PAGE_LIMIT)
            if ids:
                finding = await self._compare(source, ids)
                below = ids[-1]
                await self._audits.advance(channel.id, below_id=below, done=len(ids), found=finding.disagreements)
            if len(ids) < PAGE_LIMIT:
                now = self._clock()
                await self._audits.end(channel.id, now, now + self._every)
                log.info("full_audit_done", channel=channel.shown, reason=turn.reason)
                return True
        return False

    async def audit(self, channel: Channel) -> Finding:
        """Read a sample again; the saver finds and repairs what differs, as with any reading."""
        ledger = await self._channels.ledger(channel.id)
        empty = await self._next_empty(channel.id, ledger)
        ids = sorted([*empty, *await self._audits.sample(channel.id, SAMPLE - len(empty))])
        if not ids:
            return Finding(0)
        source = await self._readers.reader(channel, priority=Priority.BACKFILL)
        finding = await self._compare(source, ids)
        level = log.warning if finding.missing else log.info
        level("audited", channel=channel.shown, ids=finding.audited, disagreements=finding.disagreements)
        return finding

    async def _compare(self, source: Source, ids: list[int]) -> Finding:
        told, saved = await look_at(
            self._saver, source, ids, clock=self._clock, before_page=_go_on, memory=self._memory
        )
        finding = Finding.of(told, saved)
        AUDITED_IDS.inc(finding.audited)
        for kind in ("missing", "edited", "deleted"):
            AUDIT_DISAGREEMENTS.labels(kind).inc(getattr(finding, kind))
        return finding

    async def _next_empty(self, channel_id: int, ledger: LedgerState) -> list[int]:
        """The next ids that hold nothing. A process that starts begins anywhere, so that all get their turn."""
        reached = self._reached.get(channel_id, self._rng.randint(0, max(0, ledger.newest_id)))
        ahead = stride(ledger.coverage, ledger.newest_id, reached)
        empty = next_ids(await self._saver.empty_of(channel_id, ahead), reached, EMPTY_SHARE)
        if len(empty) == EMPTY_SHARE:
            self._reached[channel_id] = empty[-1]
        elif not ahead.is_empty:
            self._reached[channel_id] = ahead.ranges[-1][1] - 1
        return empty

    async def report(self) -> dict[str, Any]:
        """For health: how much of the full audits is left."""
        waiting = await self._audits.waiting()
        return {
            "status": "ok",
            "channels_waiting": waiting.channels,
            "posts_waiting": waiting.posts,
            "since": waiting.since and waiting.since.isoformat(),
        }


def _pause(exc: SourceError | Skip) -> timedelta:
    """Accounts that change hands are settled in seconds, and what another process reads is not offered to us again."""
    if isinstance(exc, ReadElsewhere):
        return ELSEWHERE
    flood = exc.flood_seconds if isinstance(exc, SourceError) else None
    return timedelta(seconds=flood) if flood else AFTER_FAILURE


async def _go_on() -> None:
    """One request: there is no lease to keep."""


class Asked(msgspec.Struct, frozen=True):
    """An audit that a command waits for."""

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
            await asyncio.sleep(ASKED_IDLE_SECONDS)

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
        if channel.status == "paused":
            raise Skip("the channel is paused: tga channels resume")
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
