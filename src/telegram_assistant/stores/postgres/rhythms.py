"""When a channel posts: its rhythm, which polling follows, and statistics of the intervals between posts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import asyncpg
from sqlalchemy import text

from telegram_assistant.domain.silence import EWMA_ALPHA, MIN_INTERVALS, IntervalStats
from telegram_assistant.stores.postgres.database import Store, raw_transaction
from telegram_assistant.stores.postgres.posts import to_json

# An album is one arrival, and none at all when its first items were learned from already.
ARRIVALS = """
ARRAY(SELECT min(p.posted_at) FROM posts p WHERE p.channel_id = c.id AND p.posted_at > {after} AND (p.grouped_id IS NULL
    OR NOT EXISTS (SELECT 1 FROM posts e WHERE e.channel_id = c.id AND e.grouped_id = p.grouped_id
        AND e.posted_at <= {after}))
GROUP BY coalesce(p.grouped_id, -p.message_id) ORDER BY 1)
"""
# The rhythm keeps milliseconds, so the post that it ends with may be a little later than it says.
LEARNED = "coalesce(to_timestamp(CAST(c.rhythm ->> 'last' AS float8) + 0.001), :since)"
HABIT = f"""
SELECT c.rhythm, c.rhythm_since, c.timezone, c.priority, c.planned_at, c.plan_price,
    c.history_from IS NULL AND c.coverage @> int8range(c.requested_from, greatest(c.requested_from, c.cursor_id + 1)),
    (SELECT min(posted_at) FROM posts WHERE channel_id = c.id), {ARRIVALS.format(after=LEARNED)}
FROM channels c WHERE c.id = :id
"""


@dataclass(frozen=True, slots=True)
class Habit:
    """A channel's rhythm, and what there is to learn."""

    rhythm: dict[str, Any] | None
    since: datetime | None  # the rhythm knows nothing of what came before
    timezone: str
    priority: int
    planned_at: datetime | None
    plan_price: float | None
    whole: bool  # no hole in the history that was asked for
    oldest: datetime | None
    arrivals: Sequence[datetime]  # that the rhythm does not know of, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """When a channel is to be visited by its rhythm, and what was learned."""

    at: datetime
    price: float | None  # of a request, then; None: the fixed interval of a channel that is new
    appetite: float
    rhythm: Mapping[str, Any] | None = None  # None: there was nothing to learn
    since: datetime | None = None  # with it: from when on the rhythm knows the channel


def planned_values(planned: Planned | None) -> dict[str, object]:
    """For the statement that stores the outcome of a visit."""
    if planned is None:
        return dict.fromkeys(("planned", "price", "appetite", "rhythm", "since"))
    rhythm = None if planned.rhythm is None else to_json(planned.rhythm)
    kept = {"planned": planned.at, "price": planned.price, "appetite": planned.appetite}
    return {**kept, "rhythm": rhythm, "since": planned.since}


class Rhythms(Store):
    """Reading only: who visits a channel writes its rhythm together with the outcome."""

    async def habit(self, channel_id: int, *, since: datetime) -> Habit | None:
        """What is older than `since` is not learned by a channel without a rhythm. None: there is no such channel."""
        row = await self._row(HABIT, {"id": channel_id, "since": since})
        return None if row is None else Habit(*row)

    async def arrivals(self, channel_id: int, since: datetime) -> list[datetime]:
        """All of them, known or not."""
        statement = f"SELECT {ARRIVALS.format(after=':since')} FROM channels c WHERE c.id = :id"
        return list(await self._value(statement, {"id": channel_id, "since": since}))

    async def appetites(self) -> tuple[list[float], int]:
        """Of all active channels in one row: the appetites, and how many channels have none yet."""
        statement = text(
            "SELECT array_agg(appetite) FILTER (WHERE appetite IS NOT NULL), count(*) FILTER (WHERE appetite IS NULL)"
            " FROM channels WHERE status = 'active'"
        )
        async with self._database.connect() as connection:
            known, new = (await connection.execute(statement)).one()
        return known or [], new


READ_ALWAYS = 50_000  # posts that are read at once, even if few are new,
READ_PER_NEW = 50  # so many more for each new one,
READ_AT_MOST = 150_000  # and never more: some tenths of a second
CHANNEL_COSTS = 50  # as much as so many posts, however few it has
OLD_AFTER = timedelta(days=1)  # without new posts too: old ones leave the window

# $1: the begin of the window, $2: the weight of a new value in an exponentially weighted mean. The weights are given
# newest first; beyond 500 they are smaller than any float can show.
CHANGED = """
WITH changed AS (
    SELECT id, captured, coalesce((intervals ->> 'count')::bigint, 0) AS kept,
        coalesce(abs(captured - (intervals ->> 'captured')::bigint), captured) AS new
    FROM channels WHERE status = 'active' AND (captured IS DISTINCT FROM (intervals ->> 'captured')::bigint
        OR (intervals ->> 'at')::timestamptz < $3)
), ranked AS (
    SELECT id, captured, sum(new) OVER () AS all_new,
        sum(kept + new + $7::bigint) OVER (ORDER BY new / (kept + 1.0) DESC, id) - kept - new - $7::bigint AS before
    FROM changed
), asked AS (
    SELECT id, captured FROM ranked WHERE before < least($4::bigint + $5::bigint * all_new, $6::bigint)
)
SELECT asked.id, asked.captured, found.* FROM asked CROSS JOIN LATERAL (
    SELECT count(seconds) AS intervals, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS median,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
        sum(seconds * power(1 - $2::float8, least(arrivals - place, 500))
            * CASE WHEN place = 2 THEN 1 ELSE $2::float8 END) AS ewma
    FROM (
        SELECT extract(epoch FROM at - lag(at) OVER by_time)::float8 AS seconds, row_number() OVER by_time AS place,
            count(*) OVER () AS arrivals
        FROM (
            SELECT min(posted_at) AS at FROM posts WHERE channel_id = asked.id AND posted_at >= $1
            GROUP BY coalesce(grouped_id, -message_id)
        ) AS album_or_post WINDOW by_time AS (ORDER BY at)
    ) AS gaps
) AS found
"""
# A channel whose row is locked keeps what it has: to wait for it would hold up all others.
KEEP = """
WITH free AS (SELECT id FROM channels WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED)
UPDATE channels SET intervals = new.stats
FROM free JOIN unnest($1::bigint[], $2::jsonb[]) AS new(id, stats) ON new.id = free.id
WHERE channels.id = free.id RETURNING channels.id
"""


class Intervals(Store):
    """The truth behind the cache."""

    async def renew(self, now: datetime, since: datetime) -> list[int]:
        """Compute what has changed, and keep it; of which channels. A locked table is not waited for long."""
        limits = (READ_ALWAYS, READ_PER_NEW, READ_AT_MOST, CHANNEL_COSTS)
        try:
            async with raw_transaction(self._database) as connection:
                await connection.execute("SET LOCAL lock_timeout = '500ms'")  # a tick has other things to do
                rows = await connection.fetch(CHANGED, since, EWMA_ALPHA, now - OLD_AFTER, *limits)
        except asyncpg.LockNotAvailableError:
            return []
        if not rows:
            return []
        async with raw_transaction(self._database) as connection:
            kept = [_to_keep(row, now) for row in rows]
            return [row["id"] for row in await connection.fetch(KEEP, [row["id"] for row in rows], kept)]

    async def kept(self, ids: Collection[int]) -> dict[int, IntervalStats]:
        statement = (
            "SELECT id, (intervals ->> 'count')::int, (intervals ->> 'median')::float8, (intervals ->> 'p95')::float8,"
            " (intervals ->> 'ewma')::float8 FROM channels"
            " WHERE id = ANY(:ids) AND (intervals ->> 'count')::int >= :least"
        )
        rows = await self._rows(statement, {"ids": list(ids), "least": MIN_INTERVALS})
        return {channel_id: IntervalStats(*stats) for channel_id, *stats in rows}

    async def posted_between(self, channel_id: int, after: datetime, until: datetime) -> bool:
        statement = (
            "SELECT EXISTS (SELECT 1 FROM posts WHERE channel_id = :id AND posted_at > :after AND posted_at <= :until)"
        )
        values = {"id": channel_id, "after": after, "until": until}
        return bool(await self._value(statement, values))


def _stats(row: asyncpg.Record) -> IntervalStats:
    return IntervalStats(row["intervals"], row["median"], row["p95"], row["ewma"])


def _to_keep(row: asyncpg.Record, now: datetime) -> str:
    """The statistics, and of how many posts and when they were computed."""
    stats = asdict(_stats(row)) if row["intervals"] >= MIN_INTERVALS else {"count": row["intervals"]}
    return to_json({**stats, "captured": row["captured"], "at": now})
