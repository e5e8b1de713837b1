"""Puts events on their streams, a bounded batch per entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from telegram_assistant.bus.codec import FIELD, encode
from telegram_assistant.domain.events import Event
from telegram_assistant.errors import Retry, in_words
from telegram_assistant.names import stream

EVENTS_PER_ENTRY = 100


class Publisher:
    """Whoever publishes has committed before (effect, publish, ack)."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def publish(self, event: str, events: Sequence[Event | Raw]) -> None:
        """Raises Retry when Redis is away: what was not published stays in the outbox."""
        await self.publish_all([(event, events)])

    async def publish_all(self, batches: Iterable[tuple[str, Sequence[Event | Raw]]]) -> None:
        """In this order, in one go."""
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for event, events in batches:
                    add_to(pipe, event, events)
                await pipe.execute()
        except (RedisError, OSError) as exc:
            raise Retry(f"Redis does not take events: {in_words(exc)}") from exc


def add_to(pipe: Pipeline, event: str, events: Sequence[Event | Raw]) -> None:
    """In somebody's pipeline or transaction."""
    for start in range(0, len(events), EVENTS_PER_ENTRY):
        _ = pipe.xadd(stream(event), {FIELD: encode(events[start : start + EVENTS_PER_ENTRY])})
