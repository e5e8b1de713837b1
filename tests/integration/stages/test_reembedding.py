"""Another embedding model: all posts anew in the background; the older vectors answer until it switches."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import pytest
from redis.asyncio import Redis

from telegram_assistant.domain.models import Embedded, Identity
from telegram_assistant.errors import Retry
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stages.reindexing import Reembedding
from tests.integration.stages.desk import FOOTBALL, SYSTEM, WEATHER, Desk, post

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

SIZE = 8


class Other:
    """A model with vectors of another size, and sometimes away."""

    identity = Identity("openai", "another")
    size = SIZE

    def __init__(self, *, away_after: int = 1000) -> None:
        self.left = away_after

    async def embed(self, texts: Sequence[str]) -> Embedded:
        if self.left <= 0:
            raise Retry("the model is away")
        self.left -= len(texts)
        return Embedded(vectors=tuple(_unit(text) for text in texts))


def _unit(text: str) -> tuple[float, ...]:
    numbers = [byte - 128.0 for byte in sha256(text.encode()).digest()[:SIZE]]
    length = math.hypot(*numbers) or 1.0
    return tuple(number / length for number in numbers)


def job(indexes: Indexes, desk: Desk, redis: Redis) -> Reembedding:
    lock = Lock(redis, "lock:reembed", "of a test", ttl=30, monotonic=asyncio.get_running_loop().time)
    return Reembedding(indexes, desk.stored_posts, lock)


async def test_a_new_model_takes_over_when_every_post_has_its_vector(
    desk: Desk, indexes: Indexes, redis: Redis
) -> None:
    posts = [post(1, WEATHER), post(2, FOOTBALL), post(3, "Снег")]
    await desk.save(*posts)
    await indexes.put(await indexes.entries.read([one.id for one in posts]))
    before = await indexes.vectors.current(SYSTEM)
    assert before == indexes.model

    away = replace(indexes, embedder=Other(away_after=0))
    with pytest.raises(Retry, match="away"):
        await job(away, desk, redis).bring_up_to_date(SYSTEM)
    assert await indexes.vectors.current(SYSTEM) == before, "the older vectors answer until all are there"
    assert len(await indexes.vectors.vector(SYSTEM, posts[0].id) or ()) == indexes.model.size

    other = replace(indexes, embedder=Other())
    late = post(4, "Пришёл посреди переезда")
    await desk.save(*posts, late)
    await other.put(await other.entries.read([late.id]))
    assert await job(other, desk, redis).bring_up_to_date(SYSTEM)
    assert await indexes.vectors.current(SYSTEM) == other.model
    for one in (*posts, late):
        assert len(await indexes.vectors.vector(SYSTEM, one.id) or ()) == SIZE
    assert not await job(other, desk, redis).bring_up_to_date(SYSTEM), "once is enough"
