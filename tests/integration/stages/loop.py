"""A stage in the real loop, until it has nothing left to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

from telegram_assistant.bus.consumer import Consumer, ConsumerTimes
from telegram_assistant.bus.retry_queue import RetryQueue
from telegram_assistant.bus.stage import Handler, Stage
from telegram_assistant.bus.streams import lag_of
from telegram_assistant.bus.supervisor import Supervisor
from tests.integration.stages.desk import Desk


async def run_stage(desk: Desk, name: str, handlers: Mapping[str, Handler]) -> None:
    """What failed has had all its attempts then."""
    stage = Stage(name=name, handlers=handlers, concurrency=1, first_delay=0.01, longest_delay=0.01)
    times = ConsumerTimes(block_ms=20)
    consumer = Consumer(desk.redis, stage, name=uuid4().hex, letters=desk.letters, steps=desk.steps, times=times)
    supervisor = Supervisor()
    await supervisor.start(name, consumer.run)
    await eventually(lambda: _is_done(desk, stage))
    await supervisor.stop()
    await consumer.close()
    assert supervisor.tasks[name].restarts == 0, supervisor.tasks[name].last_error


async def eventually(condition: Callable[[], Awaitable[object]]) -> None:
    """What is awaited happens in another task, in Valkey or PostgreSQL, and no event tells."""
    async with asyncio.timeout(300):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


async def _is_done(desk: Desk, stage: Stage) -> bool:
    lags = [await lag_of(desk.redis, event, stage.name) for event in stage.handlers]
    behind = any(lag.entries or lag.pending for lag in lags)
    return not behind and await RetryQueue(desk.redis, stage.name).size() == 0
