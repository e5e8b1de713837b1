"""The way of posts through the stages: the latest step of each stage, and dead letters (G4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import DeadLetter, Step
from telegram_assistant.domain.text import clean_text
from telegram_assistant.names import INDEXING, TELETHON_INGEST
from telegram_assistant.stores.postgres.database import Store, as_jsonb, raw_transaction

LONGEST_NOTE = 500

_OF = "SELECT stage, outcome, note, trace_id, duration_ms, at FROM post_steps WHERE post_id = :post ORDER BY at"

# A step about words that the post no longer has does not hide the one about those that it has; of several in one batch
# the last counts. In one order, so that two processes do not wait for each other.
_RECORD = """
INSERT INTO post_steps AS s (post_id, stage, outcome, note, content_hash, trace_id, duration_ms, at)
SELECT DISTINCT ON (n.post_id, n.stage)
  n.post_id, n.stage, n.outcome, n.note, n.content_hash, n.trace_id, n.duration_ms, clock_timestamp()
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::float8[]) WITH ORDINALITY
  AS n(post_id, stage, outcome, note, content_hash, trace_id, duration_ms, place)
JOIN posts p ON p.id = n.post_id
ORDER BY n.post_id, n.stage, n.content_hash IN ('', p.content_hash) DESC, n.place DESC
ON CONFLICT (post_id, stage) DO UPDATE SET outcome = excluded.outcome, note = excluded.note,
  content_hash = excluded.content_hash, trace_id = excluded.trace_id, duration_ms = excluded.duration_ms,
  at = excluded.at
WHERE excluded.content_hash IN ('', s.content_hash)
  OR s.content_hash <> (SELECT p.content_hash FROM posts p WHERE p.id = s.post_id)
"""

# Posts that are long enough for a stage, and for what they say now it is not done.
_LACKING = """
SELECT count(*) FROM posts p
JOIN channels c ON c.id = p.channel_id AND c.status <> 'removed'
WHERE p.deleted_at IS NULL AND length(btrim(p.text)) >= :chars
  AND NOT EXISTS (SELECT 1 FROM post_steps s WHERE s.post_id = p.id AND s.stage = :stage
                  AND s.content_hash = p.content_hash AND s.outcome = 'done')
"""


_INDEXED = (
    "FROM post_steps s JOIN posts p ON p.id = s.post_id"
    " WHERE s.stage = :stage AND s.outcome = 'done' AND p.deleted_at IS NULL"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step as it is shown."""

    stage: str
    outcome: str
    note: str
    trace_id: str
    duration_ms: float
    at: datetime


class Steps(Store):
    """The table `post_steps`."""

    async def record(self, steps: Sequence[Step]) -> None:
        async with raw_transaction(self._database) as connection:
            await connection.execute(
                _RECORD,
                [step.post_id for step in steps],
                [step.stage for step in steps],
                [step.outcome for step in steps],
                [clean_text(step.note)[:LONGEST_NOTE] for step in steps],
                [step.content_hash for step in steps],
                [step.trace_id for step in steps],
                [step.duration_ms for step in steps],
            )

    async def of_post(self, post_id: UUID) -> list[Recorded]:
        """In the order in which they happened."""
        return [Recorded(*row) for row in await self._rows(_OF, {"post": post_id})]

    async def indexed_after(self, after: UUID | None, *, limit: int) -> list[UUID]:
        """Posts that the indexes should have, in the order of their ids."""
        statement = f"SELECT s.post_id {_INDEXED} AND s.post_id > :after ORDER BY s.post_id LIMIT :limit"
        values = {"stage": INDEXING, "after": after or UUID(int=0), "limit": limit}
        return [row.post_id for row in await self._rows(statement, values)]

    async def count_indexed(self) -> int:
        return int(await self._value(f"SELECT count(*) {_INDEXED}", {"stage": INDEXING}) or 0)

    async def lacking(self, stage: str, *, min_chars: int = 0) -> int:
        """How many posts a stage has still to do, whether they wait, failed or were never told of."""
        found = await self._value(_LACKING, {"stage": stage, "chars": min_chars})
        return int(found or 0)


async def path_of(connection: AsyncConnection, post_id: UUID) -> list[Recorded]:
    """From the capture on, as far as the connection may see it; empty: there is no such post."""
    statement = text("SELECT captured_at, posted_at FROM posts WHERE id = :post")
    row = (await connection.execute(statement, {"post": post_id})).one_or_none()
    if row is None:
        return []
    note = f"posted {row.posted_at:%Y-%m-%d %H:%M:%S} UTC"
    captured = Recorded(TELETHON_INGEST, "done", note, "", 0.0, row.captured_at)
    return [captured, *(Recorded(*step) for step in await connection.execute(text(_OF), {"post": post_id}))]


_OPEN = "replayed_at IS NULL"
_ADD = """
INSERT INTO dead_letters (tenant_id, stage, stream, entry_id, payload, reason, traceback, attempts, trace_id)
VALUES (coalesce((SELECT id FROM tenants WHERE id = :tenant), :system), :stage, :stream, :entry,
        CAST(:payload AS jsonb), :reason, :traceback, :attempts, :trace)
ON CONFLICT (stream, stage, entry_id) DO UPDATE SET payload = excluded.payload, reason = excluded.reason,
  traceback = excluded.traceback, attempts = excluded.attempts, trace_id = excluded.trace_id, created_at = now(),
  replayed_at = NULL
"""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as it is kept."""

    id: int
    tenant_id: UUID
    stage: str
    event: str
    key: str
    payload: Any
    reason: str
    traceback: str | None
    attempts: int
    trace_id: str | None
    created_at: datetime
    replayed_at: datetime | None

    @property
    def can_replay(self) -> bool:
        """What never was an event of ours cannot be tried again, only dropped."""
        return isinstance(self.payload, dict)


_COLUMNS = (
    "id, tenant_id, stage, stream, entry_id, payload, reason, traceback, attempts, trace_id, created_at, replayed_at"
)


class DeadLetters(Store):
    """The table `dead_letters`."""

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        async with self._database.begin() as connection:
            for letter in letters:
                await connection.execute(text(_ADD), _values(letter))

    async def find(
        self, *, stage: str | None = None, limit: int = 50, ids: Sequence[int] | None = None
    ) -> list[Letter]:
        """Those that were not replayed, newest first; with `ids` these, replayed or not."""
        where = f"(CAST(:stage AS text) IS NULL OR stage = :stage) AND {_OPEN}" if ids is None else "id = ANY(:ids)"
        statement = f"SELECT {_COLUMNS} FROM dead_letters WHERE {where} ORDER BY id DESC LIMIT :limit"
        values = {"stage": stage, "limit": limit} if ids is None else {"ids": list(ids), "limit": len(ids)}
        return [Letter(*row) for row in await self._rows(statement, values)]

    async def counts(self) -> dict[str, int]:
        """Open ones by stage."""
        statement = f"SELECT stage, count(*) AS letters FROM dead_letters WHERE {_OPEN} GROUP BY stage"
        return {row.stage: int(row.letters) for row in await self._rows(statement)}

    async def replayed(self, letters: Sequence[Letter]) -> None:
        """A letter that changed since it was read stays open: its replay failed already.

        The posts wait from now on: should Redis forget them, the reconciler finds that they are missing.
        """
        statement = (
            "WITH done AS (UPDATE dead_letters d SET replayed_at = now()"
            " FROM unnest(CAST(:ids AS bigint[]), CAST(:moments AS timestamptz[])) AS n(id, created_at)"
            " WHERE d.id = n.id AND d.created_at = n.created_at"
            " RETURNING d.stage, CASE WHEN d.payload->>'post_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"
            "   THEN CAST(d.payload->>'post_id' AS uuid) END AS post_id)"
            " UPDATE post_steps s SET outcome = 'waiting', note = 'replayed', at = clock_timestamp() FROM done"
            " WHERE s.post_id = done.post_id AND s.stage = done.stage AND s.outcome = 'dead'"
        )
        values = {"ids": [one.id for one in letters], "moments": [one.created_at for one in letters]}
        await self._run(statement, values)

    async def drop(self, ids: Sequence[int]) -> int:
        return await self._run("DELETE FROM dead_letters WHERE id = ANY(:ids)", {"ids": list(ids)})


class OwnLetters(Store):
    """The letters of one tenant, as its admins see them: read under row-level security."""

    def __init__(self, database: AsyncEngine, tenant_id: UUID) -> None:
        super().__init__(database)
        self._tenant_id = tenant_id

    async def page(self, *, stage: str | None = None, limit: int, before: int | None = None) -> list[Letter]:
        """Those that were not replayed, newest first; `before` is the last of the page before."""
        statement = (
            f"SELECT {_COLUMNS} FROM dead_letters WHERE {_OPEN} AND (CAST(:stage AS text) IS NULL OR stage = :stage)"
            " AND (CAST(:before AS bigint) IS NULL OR id < :before) ORDER BY id DESC LIMIT :limit"
        )
        values = {"stage": stage, "before": before, "limit": limit}
        return [Letter(*row) for row in await self._rows(statement, values, tenant=self._tenant_id)]

    async def get(self, number: int) -> Letter | None:
        statement = f"SELECT {_COLUMNS} FROM dead_letters WHERE id = :id"
        row = await self._row(statement, {"id": number}, tenant=self._tenant_id)
        return None if row is None else Letter(*row)

    async def counts(self) -> dict[str, int]:
        """Open ones by stage."""
        statement = f"SELECT stage, count(*) AS letters FROM dead_letters WHERE {_OPEN} GROUP BY stage"
        return {row.stage: int(row.letters) for row in await self._rows(statement, tenant=self._tenant_id)}


def _values(letter: DeadLetter) -> dict[str, object]:
    return {
        "tenant": letter.tenant_id,
        "system": UUID(SYSTEM_TENANT),
        "stage": letter.stage,
        "stream": letter.event,
        "entry": letter.key,
        "payload": _as_json(letter.payload),
        "reason": clean_text(letter.reason),
        "traceback": clean_text(letter.traceback) if letter.traceback else None,
        "attempts": letter.attempts,
        "trace": letter.trace_id,
    }


def _as_json(payload: str) -> str:
    """Written anew, for not every number of JSON is one of PostgreSQL; what is no JSON is kept as the text it is."""
    clean = clean_text(payload)
    try:
        return as_jsonb(msgspec.json.decode(clean))
    except (msgspec.DecodeError, RecursionError):
        return as_jsonb(clean)
