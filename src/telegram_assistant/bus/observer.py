"""What the streams look like from outside: how far each stage is behind (SPEC 4.11), now and over the last minutes,
and how much memory they take. Streams are trimmed behind the slowest stage.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.bus.streams import forget_dead_consumers, lag_of, make_group, trim
from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import (
    DEAD_LETTERS,
    PIPELINE_BYTES,
    PIPELINE_FULL,
    STAGE_EVENTS,
    STAGE_OLDEST,
    STAGE_WAITING,
    STREAM_LAG,
    STREAM_PENDING,
)
from telegram_assistant.names import stream, waiting_events

EVERY = 5.0
TIDY_EVERY = 10.0
LATE_SECONDS = 600.0  # what waits longer than this, while nothing is acknowledged, is a stage that stands still
SAMPLE_EVERY = 2.5
KEPT = 120  # samples: five minutes
OVER = 12  # samples that a rate is taken over: half a minute
LOOK_EVERY = 0.25  # seconds; a relay adds a few megabytes meanwhile
MEGABYTE = 2**20
log = get_logger(__name__)


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
            position.waiting = await RetryQueue(self.redis, stage).size()
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


@dataclass(frozen=True, slots=True)
class Sample:
    """A stage at one moment."""

    at: float  # epoch seconds
    behind: int
    waiting: int
    dead: int
    oldest_seconds: float
    done: float  # events dealt with since the process began, or batches since the group was made
    workers: int  # who reads


@dataclass
class StageHistory:
    """The last samples of a stage, oldest first."""

    stage: str
    counts_events: bool  # False: the stage runs elsewhere, and only its batches can be counted
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def now(self) -> Sample:
        return self.samples[-1]

    @property
    def state(self) -> str:
        """`idle | busy | retrying | late | unattended`: what a person should know first."""
        now = self.now
        if now.behind and not now.workers:
            return "unattended"
        if now.oldest_seconds > LATE_SECONDS:
            return "late"
        if now.waiting:
            return "retrying"
        return "busy" if now.behind else "idle"

    @property
    def per_minute(self) -> float:
        return _rate(self.samples[max(0, len(self.samples) - OVER - 1)], self.now)

    @property
    def rates(self) -> list[float]:
        """Per minute, at each sample."""
        samples = list(self.samples)
        return [_rate(samples[max(0, at - OVER // 3)], one) for at, one in enumerate(samples)]


class Sampler:
    """The last minutes of each stage, in memory, for the pages that show them. It reads only Redis."""

    def __init__(
        self,
        redis: Redis,
        groups: Iterable[tuple[str, str]],
        dead_letters: Callable[[], Awaitable[Mapping[str, int]]],
        *,
        runs_here: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._redis = redis
        self._groups = list(groups)
        self._observer = Observer(redis, self._groups, (), dead_letters)
        self._runs_here = runs_here
        self._histories: dict[str, StageHistory] = {}

    async def run(self, task: Task) -> None:
        for event, group in self._groups:
            await make_group(self._redis, event, group)
        await self.look()
        task.ready()
        while True:
            heed_stop()
            await asyncio.sleep(SAMPLE_EVERY)
            await self.look()
            task.progress()

    async def look(self) -> None:
        """One more sample of each stage."""
        await self._observer.look()
        read, workers = await self._readers()
        counted = _events_by_stage()
        for stage, position in self._observer.positions.items():
            here = self._runs_here(stage)
            history = self._histories.get(stage)
            if history is None or history.counts_events != here:
                history = self._histories[stage] = StageHistory(stage, here)
            done = counted.get(stage, 0.0) if here else float(read.get(stage, 0))
            history.samples.append(_sample(position, done, workers.get(stage, 0)))

    @property
    def stages(self) -> dict[str, StageHistory]:
        """In the order of the pipeline; empty before the first look."""
        return self._histories

    async def _readers(self) -> tuple[dict[str, int], dict[str, int]]:
        """By stage: entries that were read, and who reads."""
        read: dict[str, int] = {}
        workers: dict[str, int] = {}
        for event in dict.fromkeys(event for event, _ in self._groups):
            for group in await self._redis.xinfo_groups(stream(event)):
                name = str(group["name"])
                read[name] = read.get(name, 0) + int(group.get("entries-read") or 0)
                workers[name] = max(workers.get(name, 0), int(group["consumers"]))
        return read, workers


def _sample(position: Position, done: float, workers: int) -> Sample:
    behind = position.entries + position.pending
    return Sample(time.time(), behind, position.waiting, position.dead, position.oldest_seconds, done, workers)


def _events_by_stage() -> dict[str, float]:
    totals: dict[str, float] = {}
    for metric in STAGE_EVENTS.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                stage = sample.labels["stage"]
                totals[stage] = totals.get(stage, 0.0) + sample.value
    return totals


def _rate(before: Sample, after: Sample) -> float:
    """A counter that began anew says nothing yet."""
    seconds = after.at - before.at
    return 0.0 if seconds <= 0 else max(0.0, after.done - before.done) * 60 / seconds


class Pressure:
    """How much waits in Redis for the stages. Publishers stop before its memory is full."""

    def __init__(self, redis: Redis, groups: Iterable[tuple[str, str]], *, most_mb: int) -> None:
        pairs = list(groups)
        self._redis = redis
        self._keys = sorted({*(stream(event) for event, _ in pairs), *(waiting_events(stage) for _, stage in pairs)})
        self._most = most_mb * MEGABYTE
        self._bytes = 0
        self._full = False
        self._looked = -float("inf")

    async def full(self) -> bool:
        """Whether to publish later: unpublished events are safe where they are."""
        if time.monotonic() - self._looked > LOOK_EVERY:
            await self._look()
        return self._full

    async def _look(self) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in self._keys:
                _ = pipe.memory_usage(key)
            self._bytes = sum(size or 0 for size in await pipe.execute())
        self._looked = time.monotonic()
        full = self._bytes > self._most
        if full != self._full:
            log.warning("pipeline_full" if full else "pipeline_has_room", megabytes=round(self._bytes / MEGABYTE, 1))
        self._full = full
        PIPELINE_BYTES.set(self._bytes)
        PIPELINE_FULL.set(full)

    async def report(self) -> dict[str, Any]:
        """For health: waiting is what it should do, so it is no failure; a stage that stands still says so itself."""
        return {"status": "ok", "full": self._full, "megabytes": round(self._bytes / MEGABYTE, 1)}
