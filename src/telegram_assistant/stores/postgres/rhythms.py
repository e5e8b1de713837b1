"""What polling that learns reads of a channel: its rhythm, what has come since, and how eager all channels are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

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
    whole: bool  # no hole in the history that somebody asked for
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


class Rhythms:
    """Reading only: who visits a channel writes its rhythm together with the outcome."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def habit(self, channel_id: int, *, since: datetime) -> Habit | None:
        """What is older than `since` is not learned by a channel without a rhythm. None: there is no such channel."""
        async with self._database.connect() as connection:
            row = (await connection.execute(text(HABIT), {"id": channel_id, "since": since})).first()
        return None if row is None else Habit(*row)

    async def arrivals(self, channel_id: int, since: datetime) -> list[datetime]:
        """All of them, known or not."""
        statement = text(f"SELECT {ARRIVALS.format(after=':since')} FROM channels c WHERE c.id = :id")
        async with self._database.connect() as connection:
            return list((await connection.execute(statement, {"id": channel_id, "since": since})).scalar_one())

    async def appetites(self) -> tuple[list[float], int]:
        """Of all active channels in one row: the appetites, and how many channels have none yet."""
        statement = text(
            "SELECT array_agg(appetite) FILTER (WHERE appetite IS NOT NULL), count(*) FILTER (WHERE appetite IS NULL)"
            " FROM channels WHERE status = 'active'"
        )
        async with self._database.connect() as connection:
            known, new = (await connection.execute(statement)).one()
        return known or [], new
