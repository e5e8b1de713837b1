"""How often subjects are told of, counted by PostgreSQL: in a window, and in the same hours of the days before.

Counted as the system, in channels that were read as the tenant: under row-level security each row would be looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.post import post_id
from telegram_assistant.domain.trends import (
    BASELINE_DAYS,
    DAY,
    LEAST_DAYS,
    LEAST_MENTIONS,
    PER_CHANNEL,
    Background,
    Kind,
    Series,
    Spread,
    Subject,
    Window,
)
from telegram_assistant.stores.postgres.database import as_tenant, raw_transaction

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


class TrendCounts:
    """Counts over the full-text index and the findings of tagging."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def channels(self, tenant_id: UUID, window: Window) -> tuple[int, ...]:
        """Those that the tenant watches and that have a past: of a new one everything would be new."""
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(text(_CHANNELS), {"before": window.start - LEAST_DAYS * DAY})
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
