"""How the stages have fared over the last minutes, kept in memory for the page that shows it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from redis.asyncio import Redis

from telegram_assistant.bus.groups import make_group
from telegram_assistant.bus.observer import LATE_SECONDS, Observer, Position
from telegram_assistant.bus.supervisor import Task, heed_stop
from telegram_assistant.metrics import STAGE_EVENTS
from telegram_assistant.names import stream

EVERY = 2.5
KEPT = 120  # samples: five minutes
OVER = 12  # samples that a rate is taken over: half a minute


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
    """A supervised job of the process that serves the pages. What it reads is in Redis, whoever runs the stages."""

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
            await asyncio.sleep(EVERY)
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
