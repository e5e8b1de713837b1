"""Dead letters once more: each goes to the stage that failed, and only there (G4)."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.retry_queue import RetryQueue, Waiting
from telegram_assistant.stores.postgres.pipeline import DeadLetters, Letter


async def replay(redis: Redis, store: DeadLetters, letters: Iterable[Letter]) -> list[Letter]:
    """Those that can be tried again wait for their stage now; which."""
    readable = [letter for letter in letters if letter.can_replay]
    for letter in readable:
        waits = Waiting(
            event=letter.event,
            payload=msgspec.Raw(msgspec.json.encode(letter.payload)),
            key=letter.key,
            since=time.time(),
            reason="replayed",
        )
        async with redis.pipeline(transaction=True) as pipe:
            RetryQueue(redis, letter.stage).put(pipe, waits, time.time())
            await pipe.execute()
    await store.replayed(readable)
    return readable
