"""Trends: how often subjects were mentioned, and the events that were found in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.post import post_id, post_url
from telegram_assistant.domain.trends import (
    BASELINE_DAYS,
    DAY,
    LEAST_DAYS,
    LEAST_MENTIONS,
    PAUSE,
    PER_CHANNEL,
    Background,
    Kind,
    Known,
    Series,
    Spread,
    Subject,
    Trend,
    Window,
    told_before,
)
from telegram_assistant.stores.postgres.database import Found, Store, as_jsonb, as_tenant, as_value, raw_transaction

MOST_POSTS = 300  # of an event that are kept, the first ones
MOST_SUBJECTS = 20
EXCERPT = 280  # characters of a post
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


_CHANNELS = """
SELECT c.id FROM channels c WHERE c.status IN ('active', 'dead') AND EXISTS (
  SELECT 1 FROM search_documents d WHERE d.channel_id = c.id AND d.posted_at < :before) ORDER BY c.id
"""
# Copies of a text are told once in each window. Equal rows of the signature mean equal texts, or nearly; a text that
# is too short for a signature is told by where it comes from.
_TOLD = """
CREATE TEMPORARY TABLE trend_told ON COMMIT DROP AS
SELECT DISTINCT ON (back, source) back, post_id, channel_id, tags, topics FROM (
  SELECT w.back, d.post_id, d.channel_id, d.posted_at, d.tags, d.topics,
    CASE WHEN d.signature <> '' THEN encode(substr(d.signature, 1, 12), 'hex')
      ELSE coalesce((p.details->'forward'->>'channel_id') || '/' || (p.details->'forward'->>'message_id'),
                    d.channel_id || '/' || p.message_id) END AS source
  FROM generate_series(0, $4::int) w(back) CROSS JOIN LATERAL (
    SELECT s.post_id, s.channel_id, s.posted_at, s.tags, s.topics, s.signature FROM search_documents s
    WHERE s.posted_at >= $2::timestamptz - w.back * interval '24 hours' - $3::interval
      AND s.posted_at < $2::timestamptz - w.back * interval '24 hours'
      AND s.channel_id = ANY($1::bigint[]) AND NOT s.deleted AND s.version > 0) d
  LEFT JOIN posts p ON p.id = d.post_id AND d.signature = '') n
ORDER BY back, source, posted_at, post_id
"""
_NAMED = """
SELECT 'phrase' AS kind, unnest({0}.tags) AS key UNION SELECT 'topic', unnest({0}.topics)
UNION SELECT 'entity', one->>'name' FROM post_enrichment e, jsonb_array_elements(e.data->'entities') one
WHERE e.post_id = {0}.post_id AND e.kind = 'tags'
"""
_VOICES = f"""
CREATE TEMPORARY TABLE trend_voices ON COMMIT DROP AS
SELECT kind, key, back, sum(least(told, $1::int))::int AS voices FROM (
  SELECT s.kind, s.key, t.back, t.channel_id, count(*) AS told
  FROM trend_told t CROSS JOIN LATERAL ({_NAMED.format("t")}) s WHERE s.key <> ''
  GROUP BY s.kind, s.key, t.back, t.channel_id) c
GROUP BY kind, key, back
"""
_TOTALS = "SELECT back, count(*)::int AS told FROM trend_told GROUP BY back"
_SUBJECTS = "SELECT count(*)::int FROM trend_voices WHERE back = 0"
# The squares of (count - mean of that day), over all days, also those without a mention.
_SPREAD = """
WITH days AS (SELECT back, count(*)::float8 AS told FROM trend_told WHERE back > 0 GROUP BY back),
  shares AS (SELECT back, told / sum(told) OVER () AS share FROM days),
  sums AS (
    SELECT sum(v.voices) AS mentions, sum(v.voices::float8 ^ 2) AS squares, sum(v.voices * s.share) AS met
    FROM trend_voices v JOIN shares s ON s.back = v.back GROUP BY v.kind, v.key)
SELECT width_bucket(mentions::int, ARRAY(SELECT 2 ^ n FROM generate_series(0, 30) n)::int[]) AS level,
  sum(squares - 2 * mentions * met + mentions::float8 ^ 2 * (SELECT sum(share ^ 2) FROM shares)) AS squares,
  sum(mentions)::int AS mentions
FROM sums GROUP BY level
"""
_SERIES = """
SELECT kind, key, array_agg(back) AS backs, array_agg(voices) AS voices FROM trend_voices
GROUP BY kind, key HAVING max(voices) FILTER (WHERE back = 0) >= $1::int
"""
_TELLINGS = f"""
SELECT s.kind, s.key, d.post_id, d.channel_id, d.posted_at, d.signature,
  (p.details->'forward'->>'channel_id')::bigint AS from_channel,
  (p.details->'forward'->>'message_id')::bigint AS from_message
FROM search_documents d JOIN posts p ON p.id = d.post_id CROSS JOIN LATERAL ({_NAMED.format("d")}) s
WHERE d.posted_at >= $2::timestamptz AND d.posted_at < $3::timestamptz AND d.channel_id = ANY($1::bigint[])
  AND NOT d.deleted AND (s.kind, s.key) IN (SELECT * FROM unnest($4::text[], $5::text[]))
ORDER BY d.posted_at, d.post_id
"""


@dataclass(frozen=True, slots=True)
class Mention:
    """A post about a subject, and what tells whether it is a copy."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    signature: bytes
    origin: UUID | None  # the post that it forwards


@dataclass(frozen=True, slots=True)
class Counted:
    """Subjects that are told of often enough to be looked at, and what is ordinary."""

    series: list[Series]
    background: Background


class TrendCounts(Store):
    """Counts over the full-text index and the findings of tagging."""

    async def channels(self, tenant_id: UUID, window: Window) -> tuple[int, ...]:
        """Those that the tenant watches and that have a past: of a new one everything would be new."""
        rows = await self._rows(_CHANNELS, {"before": window.start - LEAST_DAYS * DAY}, tenant=tenant_id)
        return tuple(row.id for row in rows)

    async def count(self, channels: Sequence[int], window: Window) -> Counted:
        async with raw_transaction(self._database) as connection:
            await connection.execute("SET LOCAL jit = off")
            await connection.execute(_TOLD, list(channels), window.end, window.length, BASELINE_DAYS)
            await connection.execute("ANALYZE trend_told")
            await connection.execute(_VOICES, PER_CHANNEL)
            totals = [0] * (BASELINE_DAYS + 1)
            for row in await connection.fetch(_TOTALS):
                totals[row["back"]] = row["told"]
            spread = {row["level"]: Spread(row["squares"], row["mentions"]) for row in await connection.fetch(_SPREAD)}
            background = Background(tuple(totals), await connection.fetchval(_SUBJECTS), spread)
            rows = await connection.fetch(_SERIES, LEAST_MENTIONS)
        series = [Series(Subject(Kind(row["kind"]), row["key"]), _counts(row["backs"], row["voices"])) for row in rows]
        return Counted(series, background)

    async def mentions(
        self, channels: Sequence[int], window: Window, subjects: Collection[Subject]
    ) -> dict[Subject, list[Mention]]:
        """All posts of the window about these, copies too, in the order of time."""
        wanted = sorted(subjects)
        kinds, keys = [str(one.kind) for one in wanted], [one.key for one in wanted]
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(_TELLINGS, list(channels), window.start, window.end, kinds, keys)
        found: dict[Subject, list[Mention]] = {subject: [] for subject in wanted}
        for row in rows:
            channel, message = row["from_channel"], row["from_message"]
            origin = post_id(channel, message) if channel and message else None
            one = Mention(row["post_id"], row["channel_id"], row["posted_at"], row["signature"], origin)
            found[Subject(Kind(row["kind"]), row["key"])].append(one)
        return found


def _counts(backs: Sequence[int], voices: Sequence[int]) -> tuple[int, ...]:
    found = dict(zip(backs, voices, strict=True))
    return tuple(found.get(back, 0) for back in range(BASELINE_DAYS + 1))


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
