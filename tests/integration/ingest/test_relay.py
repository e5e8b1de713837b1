"""The relay's own loop: it ends when it is told to, whatever happens at that very moment."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.streams import Publisher
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.ingest.relay import Relay

pytestmark = pytest.mark.integration


class Progress:
    """Tells when the relay has nothing more to do, and waits for a commit."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()

    def ready(self) -> None:
        pass

    def progress(self) -> None:
        self.idle.set()


async def test_a_stop_together_with_a_commit_is_a_stop(database: AsyncEngine, redis: Redis) -> None:
    """In Python 3.11 `wait_for` forgets a cancellation that comes with the event, and a process never ended."""
    for _ in range(3):
        committed, progress = asyncio.Event(), Progress()
        running = asyncio.ensure_future(Relay(database, Publisher(redis), committed).run(cast("Task", progress)))
        await progress.idle.wait()
        await asyncio.sleep(0)  # now it waits for a commit
        committed.set()
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running}, timeout=300)
        assert running.cancelled()
