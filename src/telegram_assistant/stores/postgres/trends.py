"""Trends: the events that were found, and their posts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.post import post_url
from telegram_assistant.domain.trends import (
    PAUSE,
    Kind,
    Known,
    Subject,
    Trend,
    Window,
    told_before,
)
from telegram_assistant.stores.postgres.database import Found, Store, as_jsonb, as_tenant, as_value
from telegram_assistant.stores.postgres.trend_counts import EXCERPT

MOST_POSTS = 300  # of an event that are kept, the first ones
MOST_SUBJECTS = 20
SHOWN_DAYS = 15  # of the counts

_KNOWN = """
SELECT t.id, t.subjects, t.last_at, array(SELECT p.post_id FROM trend_posts p WHERE p.trend_id = t.id) AS posts
FROM trends t WHERE t.tenant_id = :tenant AND t.last_at >= :since
"""
_NEW = """
INSERT INTO trends (tenant_id, kind, key, subjects, state, score, mentions, expected, channels, counts, baseline_days,
  window_start, window_end, first_at, last_at, found_at)
VALUES (:tenant, :kind, :key, CAST(:subjects AS jsonb), :state, :score, :mentions, :expected, :channels, :counts,
  :days, :start, :end, :first, :last, :end) RETURNING id
"""
# What is shown is the window in which it was strongest; how long it goes on is always told.
_GO_ON = """
UPDATE trends SET subjects = CAST(:subjects AS jsonb), last_at = greatest(last_at, CAST(:last AS timestamptz)),
  first_at = least(first_at, CAST(:first AS timestamptz)), channels = greatest(channels, CAST(:channels AS int)),
  state = CASE WHEN :state = 'daily' THEN 'daily' ELSE state END, window_start = :start, window_end = :end,
  mentions = :mentions, expected = :expected, counts = :counts, baseline_days = :days,
  score = greatest(score, CAST(:score AS float8))
WHERE id = :id
"""
_POSTS = """
INSERT INTO trend_posts (trend_id, post_id, tenant_id, source_id)
SELECT :id, n.post_id, :tenant, n.source_id FROM unnest(CAST(:posts AS uuid[]), CAST(:sources AS uuid[]))
  AS n(post_id, source_id) JOIN posts p ON p.id = n.post_id
WHERE (SELECT count(*) FROM trend_posts o WHERE o.trend_id = :id) < :most
ON CONFLICT DO NOTHING
"""
_DAY = "floor(extract(epoch FROM t.window_end - interval '1 microsecond') / 86400)::int"
_COLUMNS = f"""t.id, t.kind, t.key, t.subjects, t.state, t.score, t.mentions, t.expected, t.channels, t.counts,
  t.baseline_days, t.window_start, t.window_end, t.first_at, t.last_at, t.found_at, {_DAY} AS day"""
_PAGE = f"""
SELECT {_COLUMNS} FROM trends t WHERE t.last_at >= :since AND t.first_at < :before
  AND (CAST(:state AS text) IS NULL OR t.state = :state)
  AND (CAST(:day AS int) IS NULL OR (-{_DAY}, -t.score, t.id) > (-CAST(:day AS int), -CAST(:score AS float8), :id))
ORDER BY {_DAY} DESC, t.score DESC, t.id LIMIT :limit
"""
_OF = f"""
SELECT x.trend_id, x.source_id, p.id AS post_id, p.channel_id, p.message_id, p.posted_at, p.views,
  left(p.text, {EXCERPT}) AS text, c.title AS channel_title, c.username AS channel_username,
  coalesce(p.details->'forward' <> 'null', false) AS forwarded, p.details->'forward'->>'name' AS origin
FROM trend_posts x JOIN posts p ON p.id = x.post_id JOIN channels c ON c.id = p.channel_id
WHERE x.trend_id = ANY(:ids) AND p.deleted_at IS NULL ORDER BY p.posted_at, p.id
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What was looked at, and how."""

    tenant_id: UUID
    window: Window
    state: State
    baseline_days: int
    reach: int  # days back: before those nothing is known, which is not the same as nothing told


class Trends(Store):
    """The tables `trends` and `trend_posts`."""

    async def save(self, look: Look, found: Sequence[Trend]) -> Saved:
        """What is new becomes a row; what was known goes on in its own. Two at once do not make it twice."""
        new: list[UUID] = []
        going_on: list[UUID] = []
        async with self._database.begin() as connection:
            lock = text("SELECT pg_advisory_xact_lock(hashtextextended('trends', hashtext(CAST(:tenant AS text))))")
            await connection.execute(lock, {"tenant": str(look.tenant_id)})
            known = await _known(connection, look)
            for trend in found:
                event = told_before(trend, known.values(), look.window.start)
                values = _values(look, trend, event)
                if event is None:
                    trend_id: UUID = (await connection.execute(text(_NEW), values)).scalar_one()
                    new.append(trend_id)
                else:
                    trend_id = event.id
                    await connection.execute(text(_GO_ON), values)
                    going_on.append(trend_id)
                await _add_posts(connection, look, trend_id, trend)
                known[trend_id] = _event(trend_id, trend, event)
        return Saved(tuple(new), tuple(dict.fromkeys(going_on)))

    async def page(
        self,
        tenant_id: UUID,
        *,
        since: datetime,
        before: datetime,
        limit: int,
        state: State | None = None,
        after: Place | None = None,
    ) -> list[FoundTrend]:
        """Those that were told of in this time: the last day first, and of a day the strongest."""
        values = {
            "since": since,
            "before": before,
            "limit": limit,
            "state": str(state) if state else None,
            "day": after.day if after else None,
            "score": after.score if after else 0.0,
            "id": after.trend_id if after else UUID(int=0),
        }
        async with as_tenant(self._database, tenant_id) as connection:
            rows = list(await connection.execute(text(_PAGE), values))
            posts = await _posts_of(connection, [row.id for row in rows])
        return [_found(row, posts[row.id]) for row in rows]

    async def get(self, tenant_id: UUID, trend_id: UUID) -> FoundTrend | None:
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(f"SELECT {_COLUMNS} FROM trends t WHERE t.id = :id"), {"id": trend_id})
            row = rows.one_or_none()
            posts = await _posts_of(connection, [trend_id])
        return None if row is None else _found(row, posts[trend_id])

    async def tenants(self) -> list[UUID]:
        """Who watches anything."""
        rows = await self._rows("SELECT DISTINCT tenant_id FROM subscriptions ORDER BY tenant_id")
        return [row.tenant_id for row in rows]

    async def forget(self, before: datetime) -> None:
        await self._run("DELETE FROM trends WHERE last_at < :before", {"before": before})


async def _known(connection: AsyncConnection, look: Look) -> dict[UUID, Known]:
    values = {"tenant": look.tenant_id, "since": look.window.start - PAUSE}
    rows = await connection.execute(text(_KNOWN), values)
    return {
        row.id: Known(row.id, frozenset(_subject(one) for one in row.subjects), frozenset(row.posts), row.last_at)
        for row in rows
    }


def _event(trend_id: UUID, trend: Trend, before: Known | None) -> Known:
    """As it is known from now on."""
    posts = {telling.post_id for telling in trend.tellings}
    last_at = trend.tellings[-1].posted_at
    if before is None:
        return Known(trend_id, frozenset(trend.subjects), frozenset(posts), last_at)
    return Known(trend_id, before.subjects | set(trend.subjects), before.posts | posts, max(last_at, before.last_at))


def _values(look: Look, trend: Trend, event: Known | None) -> dict[str, Any]:
    main = trend.main
    named = [{"kind": one.subject.kind, "key": one.subject.key, "score": one.score} for one in (main, *trend.others)]
    earlier = sorted(event.subjects - set(trend.subjects)) if event else []
    named += [{"kind": one.kind, "key": one.key, "score": 0.0} for one in earlier]
    return {
        "id": event.id if event else None,
        "tenant": look.tenant_id,
        "kind": str(main.subject.kind),
        "key": main.subject.key,
        "subjects": as_jsonb(named[:MOST_SUBJECTS]),
        "state": str(look.state),
        "score": main.score,
        "mentions": main.mentions,
        "expected": main.expected,
        "channels": trend.channels,
        "counts": list(reversed(main.counts[: min(SHOWN_DAYS, look.reach + 1)])),
        "days": look.baseline_days,
        "start": look.window.start,
        "end": look.window.end,
        "first": trend.tellings[0].posted_at,
        "last": trend.tellings[-1].posted_at,
    }


async def _add_posts(connection: AsyncConnection, look: Look, trend_id: UUID, trend: Trend) -> None:
    told = trend.tellings[:MOST_POSTS]
    values = {
        "id": trend_id,
        "tenant": look.tenant_id,
        "posts": [one.post_id for one in told],
        "sources": [one.source if one.source != one.post_id else None for one in told],
        "most": MOST_POSTS,
    }
    await connection.execute(text(_POSTS), values)


async def _posts_of(connection: AsyncConnection, trend_ids: Sequence[UUID]) -> dict[UUID, list[TrendPost]]:
    found: dict[UUID, list[TrendPost]] = defaultdict(list)
    for row in await connection.execute(text(_OF), {"ids": list(trend_ids)}):
        found[row.trend_id].append(as_value(TrendPost, row))
    return found


def _found(row: Found, posts: Sequence[TrendPost]) -> FoundTrend:
    return as_value(
        FoundTrend,
        row,
        subjects=[Rising(_subject(one), one["score"]) for one in row.subjects],
        main=Subject(Kind(row.kind), row.key),
        window=Window(row.window_end, row.window_end - row.window_start),
        place=Place(row.day, row.score, row.id),
        posts=posts,
    )


def _subject(stored: dict[str, Any]) -> Subject:
    return Subject(Kind(stored["kind"]), stored["key"])


class State(StrEnum):
    """Whether a whole day has confirmed it."""

    EMERGING = "emerging"
    DAILY = "daily"


@dataclass(frozen=True, slots=True)
class Saved:
    """What a look brought: new events, and those that go on."""

    new: tuple[UUID, ...] = ()
    going_on: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trend stands in the list."""

    day: int  # since 1970
    score: float
    trend_id: UUID


@dataclass(frozen=True, slots=True)
class Rising:
    """A subject of an event; its score is 0 when it rose earlier, and not in the last window."""

    subject: Subject
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPost:
    """A post of an event, as far as the reader may see it."""

    post_id: UUID
    channel_id: int
    channel_title: str
    channel_username: str | None
    message_id: int
    posted_at: datetime
    text: str
    views: int | None
    source_id: UUID | None  # the post that it copies or forwards
    forwarded: bool
    origin: str | None  # the name that a forward tells

    @property
    def url(self) -> str:
        return post_url(self.channel_username, self.channel_id, self.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTrend:
    """An event."""

    id: UUID
    main: Subject
    subjects: tuple[Rising, ...]
    state: State
    score: float
    mentions: int
    expected: float
    channels: int
    counts: tuple[int, ...]  # of the same hours of each day, the oldest first
    baseline_days: int
    window: Window
    first_at: datetime
    last_at: datetime
    found_at: datetime
    place: Place
    posts: tuple[TrendPost, ...]  # in the order of time

    @property
    def day(self) -> date:
        """That it belongs to, in UTC."""
        return datetime.fromtimestamp(86_400 * self.place.day, UTC).date()

    @property
    def lift(self) -> float:
        return self.mentions / self.expected if self.expected else 0.0

    @property
    def goes_on(self) -> bool:
        """It was found on an earlier day."""
        return self.found_at <= self.window.end - timedelta(days=1)

    @property
    def first(self) -> TrendPost | None:
        return self.posts[0] if self.posts else None

    @property
    def path(self) -> list[TrendPost]:
        """The first post of each channel, in the order of time."""
        firsts: dict[int, TrendPost] = {}
        for post in self.posts:
            firsts.setdefault(post.channel_id, post)
        return list(firsts.values())
