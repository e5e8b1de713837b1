"""How often subjects and events were told of: in a window, and in the same hours of the days before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from asyncpg import Record

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
from telegram_assistant.language.lexemes import all_of, any_of, quoted
from telegram_assistant.language.stories import day_key, day_of
from telegram_assistant.stores.postgres.channels import WATCHED
from telegram_assistant.stores.postgres.database import Store, raw_transaction

MOST_OUTLINED = 5_000  # posts of a window that are looked at for events
EXCERPT = 280  # characters of a post
_BACKS = range(BASELINE_DAYS + 1)

_CHANNELS = f"""
SELECT c.id FROM channels c WHERE c.{WATCHED} AND EXISTS (
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
# The newest, should there be too many.
_OUTLINED = f"""
SELECT d.post_id, d.channel_id, d.posted_at, d.signature, d.story_id, d.outline, left(p.text, {EXCERPT}) AS text,
  (p.details->'forward'->>'channel_id')::bigint AS from_channel,
  (p.details->'forward'->>'message_id')::bigint AS from_message
FROM search_documents d JOIN posts p ON p.id = d.post_id
WHERE d.posted_at >= $2::timestamptz AND d.posted_at < $3::timestamptz AND d.channel_id = ANY($1::bigint[])
  AND NOT d.deleted AND d.version > 0 AND d.story_id IS NOT NULL AND NOT d.topics && $4::text[]
ORDER BY d.posted_at DESC, d.post_id LIMIT {MOST_OUTLINED}
"""
# By the keys of stories in the index: posts that have all of these words, today and in the days before.
_TOGETHER = """
SELECT w.back::int - 1 AS back, coalesce(sum(least(v.told, $4::int)), 0)::int AS voices
FROM unnest($5::text[]) WITH ORDINALITY AS w(keys, back) CROSS JOIN LATERAL (
  SELECT count(*) AS told FROM search_documents d WHERE d.forms @@ w.keys::tsquery
    AND d.posted_at >= $2::timestamptz - (w.back - 1) * interval '24 hours' - $3::interval
    AND d.posted_at < $2::timestamptz - (w.back - 1) * interval '24 hours'
    AND d.channel_id = ANY($1::bigint[]) AND NOT d.deleted AND d.version > 0
  GROUP BY d.channel_id) v
GROUP BY w.back
"""


@dataclass(frozen=True, slots=True)
class Mention:
    """A post about a subject, and what tells whether it is a copy."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    signature: bytes
    origin: UUID | None  # the post that it forwards
    story_id: UUID | None = None
    outline: bytes = b""
    text: str = ""  # its beginning


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
            found[Subject(Kind(row["kind"]), row["key"])].append(_mention(row))
        return found

    async def outlined(self, channels: Sequence[int], window: Window, *, without: Sequence[str]) -> list[Mention]:
        """Posts that tell a story, in the order of time; `without` these topics."""
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(_OUTLINED, list(channels), window.start, window.end, list(without))
        return [
            replace(_mention(row), story_id=row["story_id"], outline=row["outline"], text=row["text"])
            for row in reversed(rows)
        ]

    async def together(self, channels: Sequence[int], window: Window, words: Sequence[int]) -> tuple[int, ...]:
        """How often all of these words are told together, in the window and in the same hours of the days before."""
        days = [{day_of(window.start - back * DAY), day_of(window.end - back * DAY)} for back in _BACKS]
        keys = [
            any_of([all_of([quoted(day_key(word, day)) for word in words]) for day in sorted(some)]) for some in days
        ]
        async with raw_transaction(self._database) as connection:
            rows = await connection.fetch(_TOGETHER, list(channels), window.end, window.length, PER_CHANNEL, keys)
        return _counts([row["back"] for row in rows], [row["voices"] for row in rows])


def _mention(row: Record) -> Mention:
    channel, message = row["from_channel"], row["from_message"]
    origin = post_id(channel, message) if channel and message else None
    return Mention(row["post_id"], row["channel_id"], row["posted_at"], row["signature"], origin)


def _counts(backs: Sequence[int], voices: Sequence[int]) -> tuple[int, ...]:
    found = dict(zip(backs, voices, strict=True))
    return tuple(found.get(back, 0) for back in range(BASELINE_DAYS + 1))
