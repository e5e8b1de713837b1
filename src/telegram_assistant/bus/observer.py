"""How far every stage is behind: metrics and health by progress, and streams trimmed behind the slowest (SPEC 4.11)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from telegram_assistant.bus.groups import forget_dead_consumers, lag_of, make_group, trim
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.bus.waiting import WaitingRoom
from telegram_assistant.metrics import DEAD_LETTERS, STAGE_OLDEST, STAGE_WAITING, STREAM_LAG, STREAM_PENDING
from telegram_assistant.names import stream

EVERY = 5.0
TIDY_EVERY = 10.0
LATE_SECONDS = 600.0  # what waits longer than this, while nothing is acknowledged, is a stage that stands still


@dataclass(slots=True)
class Position:
    """Where a stage is."""

    entries: int = 0
    pending: int = 0
    waiting: int = 0
    dead: int = 0
    oldest_seconds: float = 0.0

    @property
    def status(self) -> str:
        """`late` when something waits for long; dead letters are shown beside it and are not the stage's health."""
        return "late" if self.oldest_seconds > LATE_SECONDS else "ok"


@dataclass
class Observer:
    """One per process; they all see the same, and trimming twice does no harm."""

    redis: Redis
    groups: Iterable[tuple[str, str]]  # event and stage
    unread: Iterable[str]  # events that no stage reads
    dead_letters: Callable[[], Awaitable[Mapping[str, int]]]
    positions: dict[str, Position] = field(default_factory=dict)

    async def run(self, task: Task) -> None:
        """A supervised job."""
        pairs = list(self.groups)
        for event, group in pairs:
            await make_group(self.redis, event, group)
        await self.look()
        task.ready()
        tidied = -float("inf")
        while True:
            await self.look()
            if time.monotonic() - tidied > TIDY_EVERY:
                tidied = time.monotonic()
                for event in dict.fromkeys([*(event for event, _ in pairs), *self.unread]):
                    if await self.redis.exists(stream(event)):
                        await trim(self.redis, event)
                for event, group in pairs:
                    await forget_dead_consumers(self.redis, event, group)
            task.progress()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        dead = await self.dead_letters()
        found: dict[str, Position] = {}
        now = time.time()
        for event, group in self.groups:
            position = found.setdefault(group, Position(dead=dead.get(group, 0)))
            lag = await lag_of(self.redis, event, group)
            STREAM_LAG.labels(stream(event), group).set(lag.entries)
            STREAM_PENDING.labels(stream(event), group).set(lag.pending)
            position.entries += lag.entries
            position.pending += lag.pending
            if lag.oldest is not None:
                position.oldest_seconds = max(position.oldest_seconds, now - lag.oldest)
        for stage, position in found.items():
            position.waiting = await WaitingRoom(self.redis, stage).size()
            STAGE_WAITING.labels(stage).set(position.waiting)
            STAGE_OLDEST.labels(stage).set(position.oldest_seconds)
            DEAD_LETTERS.labels(stage).set(position.dead)
        self.positions = found

    async def report(self) -> dict[str, Any]:
        """For health: each stage by its progress."""
        return {
            stage: {
                "status": one.status,
                "behind": one.entries + one.pending,
                "tried_again_later": one.waiting,
                "dead_letters": one.dead,
                "oldest_seconds": round(one.oldest_seconds, 1),
            }
            for stage, one in self.positions.items()
        }
