"""Limits: so many at once, then evenly; counted for all processes; open when Redis is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.service import Access
from telegram_assistant.names import rate_limit
from telegram_assistant.stores.redis import open_redis

pytestmark = pytest.mark.integration

Clock = Any  # of conftest.py, which cannot be imported
House = Any  # likewise
PASSWORD = "correct horse battery staple"


async def test_so_many_at_once_and_then_evenly(access: Access, clock: Clock) -> None:
    assert [await access.allow("door", limit=5, per=60) for _ in range(5)] == [0.0] * 5
    wait = await access.allow("door", limit=5, per=60)
    assert wait == pytest.approx(12, abs=0.1)
    assert await access.allow("door", limit=5, per=60) == wait, "asking costs nothing"
    assert await access.allow("another door", limit=5, per=60) == 0
    clock.pass_(seconds=12)
    assert await access.allow("door", limit=5, per=60) == 0
    assert await access.allow("door", limit=5, per=60) > 0
    clock.pass_(seconds=60)
    assert [await access.allow("door", limit=5, per=60) for _ in range(5)] == [0.0] * 5
    assert await access.allow("door", limit=5, per=60) > 0


async def test_many_at_the_same_moment_share_it(
    access: Access, database: AsyncEngine, redis: Redis, clock: Clock
) -> None:
    another = Access(database, redis, clock)
    waits = await asyncio.gather(*(one.allow("door", limit=10, per=60) for one in (access, another) * 15))
    assert waits.count(0.0) == 10


async def test_it_is_forgotten_by_itself(access: Access, redis: Redis) -> None:
    await access.allow("door", limit=5, per=60)
    assert 0 < await redis.pttl(rate_limit("door")) <= 14_000


async def test_without_redis_everything_is_allowed(house: House, database: AsyncEngine, clock: Clock) -> None:
    """Signing in too, which also forgets what it counted."""
    away = open_redis("redis://127.0.0.1:1/0")
    access = Access(database, away, clock)
    assert [await access.allow("door", limit=1, per=60) for _ in range(2)] == [0.0, 0.0]
    ann, _ = await house.somebody("ann")
    caller = await access.by_session(await access.sign_in("ann", PASSWORD, address="192.0.2.7"))
    assert caller is not None
    assert caller.user_id == ann.user_id
    await away.aclose()
