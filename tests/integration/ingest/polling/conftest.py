"""Channels in a real database, a clock that tests move, and visits without Telegram."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import column, insert, table, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.polling import PollingRules
from telegram_assistant.domain.post import post_id
from telegram_assistant.ingest.polling import Polling, unlimited
from telegram_assistant.ingest.scheduler import Scheduler
from telegram_assistant.ingest.silence import SilenceWatch
from telegram_assistant.ingest.statistics import Statistics
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.rhythms import Intervals, Rhythms

START = datetime(2026, 1, 14, 9, tzinfo=UTC)  # a Wednesday, noon in Moscow
OWNER = "process-1"
RULES = PollingRules(fixed=300, bound=3600)


@dataclass
class Newsroom:
    """What an ingest process works with."""

    database: AsyncEngine
    redis: Redis
    now: datetime = START
    posts: dict[int, int] = field(default_factory=dict)  # how many each channel has

    def __post_init__(self) -> None:
        self.channels = Channels(self.database)

    def clock(self) -> datetime:
        return self.now

    def polling(
        self, rules: PollingRules = RULES, capacity: Callable[[], Awaitable[float | None]] = unlimited
    ) -> Polling:
        """As another process would have it."""
        return Polling(Rhythms(self.database), self.redis, rules=rules, clock=self.clock, capacity=capacity)

    async def execute(self, statement: str, **values: Any) -> Any:
        async with self.database.begin() as connection:
            return await connection.execute(text(statement), values)

    async def open(self, channel_id: int, posts: Iterable[datetime] = (), **columns: Any) -> None:
        """A channel whose history is whole."""
        values = {"id": channel_id, "title": f"channel {channel_id}", "requested_from": 1, **columns}
        async with self.database.begin() as connection:
            await connection.execute(insert(table("channels", *map(column, values))).values(values))
        await self.say(channel_id, *posts)

    async def say(self, channel_id: int, *moments: datetime, grouped_id: int | None = None) -> None:
        """New posts, however they were captured."""
        if not moments:
            return
        rows = []
        for at in moments:
            number = self.posts[channel_id] = self.posts.get(channel_id, 0) + 1
            made = {"id": post_id(channel_id, number), "channel": channel_id, "number": number}
            rows.append({**made, "at": at, "grouped": grouped_id})
        async with self.database.begin() as connection:
            await connection.execute(
                text(
                    "INSERT INTO posts (id, channel_id, message_id, posted_at, content_hash, grouped_id)"
                    " VALUES (:id, :channel, :number, :at, '', :grouped)"
                ),
                rows,
            )
            await connection.execute(
                text(
                    "UPDATE channels SET cursor_id = CAST(:top AS bigint), newest_id = :top, last_post_at = :last,"
                    " coverage = int8multirange(int8range(1, CAST(:top AS bigint) + 1)) WHERE id = :id"
                ),
                {"top": self.posts[channel_id], "last": max(moments), "id": channel_id},
            )

    async def visit(self, channel_id: int, polling: Polling | None, owner: str = OWNER) -> None:
        """Lease, read, and store the outcome: what a visitor does."""
        await self.execute("UPDATE channels SET leased_by = :owner WHERE id = :id", owner=owner, id=channel_id)
        planned = await polling.plan(channel_id, self.now) if polling else None
        await self.channels.succeed(
            channel_id,
            owner,
            now=self.now,
            began=self.now,
            parsed=True,
            next_visit_at=planned.at if planned else None,
            planned=planned,
        )

    async def row(self, channel_id: int) -> Any:
        return (await self.execute("SELECT * FROM channels WHERE id = :id", id=channel_id)).one()

    async def waits(self, channel_id: int) -> float:
        """Seconds until the next visit."""
        return float(((await self.row(channel_id)).next_visit_at - self.now).total_seconds())

    def scheduler(self, polling: Polling | None, **options: Any) -> Scheduler:
        statistics = Statistics(self.redis, Intervals(self.database), window=timedelta(days=14), clock=self.clock)
        silence = SilenceWatch(self.channels, statistics, self.redis, owner=OWNER, clock=self.clock)
        return Scheduler(
            self.channels,
            self.redis,
            owner=OWNER,
            interval=RULES.fixed,
            clock=self.clock,
            due=asyncio.Event(),
            watch=silence.check,
            polling=polling,
            **options,
        )

    async def tick(self, polling: Polling | None) -> int:
        scheduler = self.scheduler(polling)
        assert await scheduler.lock.hold()
        try:
            return await scheduler.tick()
        finally:
            await scheduler.lock.release()

    @staticmethod
    def every(minutes: float, days: float, until: datetime = START) -> list[datetime]:
        """Posts so far apart on average, by pure chance, for some days until then. Telegram tells whole seconds."""
        rng, seconds, found = random.Random(minutes), 0.0, []
        while (seconds := seconds + rng.expovariate(1 / (60 * minutes))) < days * 24 * 3600:
            found.append(until - timedelta(seconds=round(seconds)))
        return found


@pytest.fixture
def newsroom(database: AsyncEngine, redis: Redis) -> Newsroom:
    return Newsroom(database, redis)
