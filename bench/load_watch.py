"""What is looked at every two seconds of a load run, and what is heard between."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from redis.asyncio import Redis
from sqlalchemy import text

from bench.engines import Engines
from bench.load_roles import MEGABYTE, Slot, Use, busy_seconds, use_of
from bench.load_telegram import Telegram
from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.bus.streams import FIELD, decode, lag_of
from telegram_assistant.bus.supervisor import heed_stop
from telegram_assistant.domain.events import PostIndexed
from telegram_assistant.names import POSTS_INDEXED, stream
from telegram_assistant.stages import STAGES, groups
from telegram_assistant.stores.redis import open_redis

SEARCH_EVERY = 3.0
MEASURING = "measuring"
QUESTIONS = ("новости", "рынок акций", "match after:1d", "update", "цены на нефть -газ")
COUNTS = (
    "SELECT (SELECT coalesce(sum(captured), 0) FROM channels), (SELECT count(*) FROM outbox),"
    " (SELECT count(*) FROM dead_letters WHERE replayed_at IS NULL),"
    " (SELECT count(*) FROM channels WHERE last_success_at IS NOT NULL)"
)


@dataclass(frozen=True)
class Sample:
    """Everything at one moment."""

    at: float  # epoch seconds
    phase: str
    posted: int
    saved: int
    indexed: int
    outbox: int
    dead: int
    visited: int  # channels that were, at least once
    lag: Mapping[str, int]  # entries not yet acknowledged, by stream and group
    waiting: Mapping[str, int]  # events to be tried again, by stage
    use: Mapping[str, Use]  # by role
    valkey_data: float  # megabytes
    load: float
    busy: float  # seconds of CPU of the whole machine, ever
    restarts: int
    warnings: int

    @property
    def on_the_way(self) -> int:
        return self.outbox + sum(self.lag.values()) + sum(self.waiting.values())

    def row(self) -> dict[str, float | str]:
        """Flat, for a table of all samples."""
        plain: dict[str, float | str] = {
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in vars(self).items()
            if isinstance(value, (int, float, str))
        }
        plain |= {f"lag {name}": count for name, count in self.lag.items()}
        plain |= {f"again later {name}": count for name, count in self.waiting.items()}
        plain |= {f"MB {role}": round(use.memory, 1) for role, use in self.use.items()}
        return plain | {f"CPU s {role}": round(use.cpu, 2) for role, use in self.use.items()}


@dataclass
class Watch:
    """Looks and listens from the first start to the end."""

    engines: Engines
    telegram: Telegram
    slots: Sequence[Slot]
    every: float = 2.0  # seconds
    tell: Callable[[Sample], None] = lambda _: None
    phase: str = "first visit"
    samples: list[Sample] = field(default_factory=list)
    indexed: dict[UUID, float] = field(default_factory=dict)  # when each was first told as indexed
    told_again: int = 0
    searches: list[tuple[float, float]] = field(default_factory=list)  # when, and how long it took
    searches_failed: int = 0
    pids: dict[str, int] = field(default_factory=dict)  # of what is no slot, by role

    async def look(self) -> Sample:
        async with self.engines.database.connect() as connection:
            saved, outbox, dead, visited = (await connection.execute(text(COUNTS))).one()
        redis = self.engines.redis
        found = [(event, stage, await lag_of(redis, event, stage)) for event, stage in groups()]
        data: Any = await redis.info("memory")
        for slot in self.slots:
            slot.read_log()
        sample = Sample(
            at=time.time(),
            phase=self.phase,
            posted=len(self.telegram.channels) + len(self.telegram.published),
            saved=int(saved),
            indexed=len(self.indexed),
            outbox=outbox,
            dead=dead,
            visited=visited,
            lag={f"{event} {stage}": lag.entries + lag.pending for event, stage, lag in found},
            waiting={stage: await RetryQueue(redis, stage).size() for stage in STAGES},
            use=self._use(),
            valkey_data=data["used_memory"] / MEGABYTE,
            load=os.getloadavg()[0],
            busy=busy_seconds(),
            restarts=sum(max(0, slot.starts - 1) for slot in self.slots),
            warnings=sum(slot.lines.total() for slot in self.slots),
        )
        self.samples.append(sample)
        self.tell(sample)
        return sample

    async def run(self) -> None:
        """Until cancelled, at even intervals."""
        due = time.monotonic()
        while True:
            await self.look()
            heed_stop()
            due = max(due + self.every, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def hear(self) -> None:
        """Note what is told as indexed, until cancelled."""
        redis, after = open_redis(self.engines.redis_url), "0"
        try:
            while True:
                after = await self._hear_some(redis, after)
                heed_stop()
                await asyncio.sleep(0.05)
        finally:
            await redis.aclose()

    async def search(self, address: str, key: str) -> None:
        """Ask the API again and again, until cancelled."""
        async with httpx.AsyncClient(base_url=address, headers={"Authorization": f"Bearer {key}"}) as client:
            number = 0
            while True:
                began, number = time.time(), number + 1
                question = QUESTIONS[number % len(QUESTIONS)]
                try:
                    answer = await client.get("/api/v1/search", params={"q": question}, timeout=30.0)
                    answer.raise_for_status()
                    self.searches.append((began, time.time() - began))
                except httpx.HTTPError:
                    self.searches_failed += 1
                await asyncio.sleep(SEARCH_EVERY)

    async def _hear_some(self, redis: Redis, after: str) -> str:
        answer: Any = await redis.xread({stream(POSTS_INDEXED): after}, block=1000, count=500)
        now = time.time()
        for _, entries in answer or []:
            after = entries[-1][0]
            for _, entry in entries:
                for event in decode(PostIndexed, entry[FIELD]):
                    self.told_again += event.post_id in self.indexed
                    self.indexed.setdefault(event.post_id, now)
        return after

    def _use(self) -> dict[str, Use]:
        found: dict[str, Use] = {}
        pids = [(slot.command, slot.process.pid) for slot in self.slots if slot.process is not None]
        for role, pid in [*pids, *self.pids.items()]:
            use, before = use_of(pid), found.get(role, Use(0.0, 0.0))
            found[role] = Use(before.memory + use.memory, before.cpu + use.cpu)
        return found | {MEASURING: use_of(os.getpid(), alone=True)}
