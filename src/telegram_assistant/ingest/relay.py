"""Puts on the streams what transactions left in the outbox. At least once, soon after the commit, crash or not."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import groupby
from operator import itemgetter
from time import perf_counter

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.observer import Pressure
from telegram_assistant.bus.streams import Publisher
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.bus.tracing import TRACES
from telegram_assistant.stores.postgres import outbox
from telegram_assistant.stores.postgres.database import raw_transaction

MOST_BATCHES = 200  # a live post is one of its own,
MOST_EVENTS = 1_000  # a page of a backfill hundreds
LINGER = 0.1  # seconds: what is committed in quick succession is published together
IDLE_SECONDS = 1.0  # how long a batch of a process that died waits at most
STOP_SECONDS = 5.0  # how long a stop waits for what is being published


class Relay:
    """One per ingest process; they take turns, so that what belongs to a channel stays in its order."""

    def __init__(
        self, database: AsyncEngine, publisher: Publisher, committed: asyncio.Event, pressure: Pressure | None = None
    ) -> None:
        self._database = database
        self._publisher = publisher
        self._committed = committed
        self._pressure = pressure

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            self._committed.clear()
            while not await self._full() and await self._whole_step():
                task.progress()
                await asyncio.sleep(LINGER)
            task.progress()
            # Not wait_for: in Python 3.11 it swallows a cancellation that comes with the event: no stop.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._committed.wait()

    async def _full(self) -> bool:
        """Then it waits in the outbox, on disk, until the stages have caught up."""
        return self._pressure is not None and await self._pressure.full()

    async def _whole_step(self) -> int:
        """A stop in the midst of a step would leave events that Redis has and the outbox still keeps: told twice."""
        step = asyncio.ensure_future(self.step())
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.wait([step], timeout=STOP_SECONDS)
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            raise

    async def step(self) -> int:
        """Publish some batches; how many. They are forgotten only after Redis has them."""
        began = perf_counter()
        async with raw_transaction(self._database) as connection:
            batches = await outbox.take(connection, most=MOST_BATCHES, events=MOST_EVENTS)
            told = [(batch.event, await outbox.events_of(connection, batch)) for batch in batches]
            # At once: Redis writes to disk before it answers, and what came one by one shares an entry.
            await self._publisher.publish_all(
                (event, [one for _, events in some for one in events])
                for event, some in groupby(told, key=itemgetter(0))
            )
            if batches:
                await outbox.forget(connection, batches)
        for batch, (event, events) in zip(batches, told, strict=True):
            TRACES.step("publish", batch.trace_id, perf_counter() - began, {"event": event, "events": len(events)})
        return len(batches)
