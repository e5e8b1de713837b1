"""Posting-interval statistics (SPEC 3.1): computed by PostgreSQL with a LAG window, kept on the channel's row.

They are computed anew for a channel when it has new posts, so that what a tick costs does not grow with the archive.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.statistics import EWMA_ALPHA, MIN_INTERVALS, IntervalStats
from telegram_assistant.stores.postgres.posts import to_json

# The weights of an exponentially weighted mean, newest first. Beyond 500 they are smaller than any float can show.
COMPUTE = """
WITH arrivals AS (
    SELECT channel_id, min(posted_at) AS at FROM posts
    WHERE channel_id = ANY(:ids) AND posted_at >= :since
    GROUP BY channel_id, coalesce(grouped_id, -message_id)
), gaps AS (
    SELECT channel_id, at, extract(epoch FROM at - lag(at) OVER by_time)::float8 AS seconds FROM arrivals
    WINDOW by_time AS (PARTITION BY channel_id ORDER BY at)
), ranked AS (
    SELECT channel_id, seconds, row_number() OVER (PARTITION BY channel_id ORDER BY at DESC) - 1 AS age,
        count(*) OVER (PARTITION BY channel_id) AS total FROM gaps WHERE seconds IS NOT NULL
)
SELECT channel_id, count(*) AS intervals, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS median,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
    sum(seconds * power(1 - CAST(:alpha AS float8), least(age, 500))
        * CASE WHEN age = total - 1 THEN 1 ELSE CAST(:alpha AS float8) END) AS ewma
FROM ranked GROUP BY channel_id HAVING count(*) >= :least
"""


class Intervals:
    """The truth behind the cache."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def compute(self, ids: Collection[int], since: datetime) -> dict[int, IntervalStats]:
        """All in one statement; channels with too few intervals are not in the answer."""
        values = {"ids": list(ids), "since": since, "alpha": EWMA_ALPHA, "least": MIN_INTERVALS}
        async with self._database.connect() as connection:
            rows = await connection.execute(text(COMPUTE), values)
            return {row.channel_id: IntervalStats(row.intervals, row.median, row.p95, row.ewma) for row in rows}

    async def keep(self, channel_id: int, stats: IntervalStats | None) -> None:
        statement = text("UPDATE channels SET intervals = CAST(:stats AS jsonb) WHERE id = :id")
        kept = None if stats is None else to_json(asdict(stats))
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": channel_id, "stats": kept})

    async def kept(self, ids: Collection[int]) -> dict[int, IntervalStats]:
        statement = text("SELECT id, intervals FROM channels WHERE id = ANY(:ids) AND intervals IS NOT NULL")
        async with self._database.connect() as connection:
            rows = await connection.execute(statement, {"ids": list(ids)})
            return {row.id: IntervalStats(**row.intervals) for row in rows}
