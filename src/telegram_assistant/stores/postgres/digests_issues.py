"""Issues of digests: each comes once, whoever makes it and however often; and how they reach their readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.digests import Content, Digest, Issue
from telegram_assistant.domain.text import clean_text
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_assistant.stores.postgres.jsonb import as_jsonb

LONGEST_ERROR = 500

_COLUMNS = (
    "i.id, i.tenant_id, i.digest_id, i.scheduled_for, i.since, i.until, i.attempts, i.error, i.built_at, i.content"
)
# Whoever comes second finds another time there, and adds nothing.
_MOVE = "UPDATE digests SET next_at = :next WHERE id = :id AND next_at = :was AND enabled RETURNING id"
_ADD = """
INSERT INTO digest_issues (tenant_id, digest_id, scheduled_for, since, until, try_at)
SELECT CAST(:tenant AS uuid), CAST(:id AS uuid), CAST(:slot AS timestamptz), greatest(CAST(:earliest AS timestamptz),
  coalesce((SELECT max(i.until) FROM digest_issues i WHERE i.digest_id = :id AND i.until < :slot),
    CAST(:since AS timestamptz))), CAST(:slot AS timestamptz), CAST(:slot AS timestamptz)
ON CONFLICT (digest_id, scheduled_for) DO NOTHING RETURNING id
"""
_TAKE = f"""
WITH taken AS (SELECT id FROM digest_issues WHERE state = 'due' AND try_at <= :now
  ORDER BY try_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE digest_issues i SET try_at = :until, attempts = attempts + 1 FROM taken WHERE i.id = taken.id
RETURNING {_COLUMNS}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How far an issue is on its way."""

    issue_id: UUID
    kind: str
    state: str  # waiting | delivered | dead
    attempts: int
    due_at: datetime
    delivered_at: datetime | None
    error: str


class DigestIssues:
    """The tables `digest_issues` and `digest_deliveries`."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def plan(
        self, digest: Digest, slot: datetime, *, since: datetime, earliest: datetime, next_at: datetime
    ) -> bool:
        """An issue for this time, from where the last one ended; False: somebody else planned it."""
        values = {"id": digest.id, "was": digest.next_at, "next": next_at}
        new = {"tenant": digest.tenant_id, "id": digest.id, "slot": slot, "since": since, "earliest": earliest}
        async with self._database.begin() as connection:
            moved = (await connection.execute(text(_MOVE), values)).scalar_one_or_none()
            if moved is None:
                return False
            return (await connection.execute(text(_ADD), new)).scalar_one_or_none() is not None

    async def take(self, now: datetime, *, lease: timedelta) -> Issue | None:
        """One that has to be built. Who dies over it gives it to the next after the lease."""
        async with self._database.begin() as connection:
            row = (await connection.execute(text(_TAKE), {"now": now, "until": now + lease})).one_or_none()
        return None if row is None else issue_of(row)

    async def put_off(self, issue: Issue, error: str, try_at: datetime) -> None:
        statement = text("UPDATE digest_issues SET error = :error, try_at = :at WHERE id = :id AND state = 'due'")
        values = {"id": issue.id, "error": clean_text(error)[:LONGEST_ERROR], "at": try_at}
        async with self._database.begin() as connection:
            await connection.execute(statement, values)

    async def built(self, issue: Issue, content: Content, *, now: datetime, send: Sequence[str]) -> bool:
        """Store it, and what has to be sent, together; False: somebody was quicker."""
        statement = text(
            "UPDATE digest_issues SET state = 'built', content = CAST(:content AS jsonb), built_at = :now, error = ''"
            " WHERE id = :id AND state = 'due' RETURNING id"
        )
        parcel = text(
            "INSERT INTO digest_deliveries (issue_id, tenant_id, kind, due_at) VALUES (:id, :tenant, :kind, :now)"
        )
        values = {"id": issue.id, "content": as_jsonb(content), "now": now}
        async with self._database.begin() as connection:
            stored = (await connection.execute(statement, values)).scalar_one_or_none()
            if stored is None:
                return False
            for kind in send:
                await connection.execute(parcel, {"id": issue.id, "tenant": issue.tenant_id, "kind": kind, "now": now})
        return True

    async def page(
        self, tenant_id: UUID, digest_id: UUID, *, limit: int, before: datetime | None = None
    ) -> list[Issue]:
        """Built ones, the newest first."""
        older = "" if before is None else " AND i.scheduled_for < :before"
        statement = text(
            f"SELECT {_COLUMNS} FROM digest_issues i WHERE i.digest_id = :id AND i.state = 'built'{older}"
            " ORDER BY i.scheduled_for DESC LIMIT :limit"
        )
        values: dict[str, Any] = {"id": digest_id, "limit": limit}
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(statement, values | ({} if before is None else {"before": before}))
            return [issue_of(row) for row in rows]

    async def waiting(self, tenant_id: UUID, digest_id: UUID) -> list[Issue]:
        """Those that are due and not built yet."""
        statement = text(
            f"SELECT {_COLUMNS} FROM digest_issues i WHERE i.digest_id = :id AND i.state = 'due'"
            " ORDER BY i.scheduled_for"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            return [issue_of(row) for row in await connection.execute(statement, {"id": digest_id})]

    async def get(self, tenant_id: UUID, digest_id: UUID, issue_id: UUID) -> Issue | None:
        """A built one."""
        statement = text(
            f"SELECT {_COLUMNS} FROM digest_issues i WHERE i.id = :id AND i.digest_id = :digest AND i.state = 'built'"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(statement, {"id": issue_id, "digest": digest_id})).one_or_none()
        return None if row is None else issue_of(row)

    async def told(self, tenant_id: UUID, digest_id: UUID, *, since: datetime) -> set[UUID]:
        """Posts of stories that issues since then have told."""
        statement = text(
            "SELECT DISTINCT p.id FROM digest_issues i, jsonb_array_elements(i.content->'stories') s,"
            " jsonb_array_elements_text(s->'posts') AS p(id)"
            " WHERE i.digest_id = :id AND i.state = 'built' AND i.scheduled_for >= :since"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(statement, {"id": digest_id, "since": since})
            return {UUID(row.id) for row in rows}

    async def sendings(self, tenant_id: UUID, issue_ids: Sequence[UUID]) -> list[Sending]:
        statement = text(
            "SELECT issue_id, kind, state, attempts, due_at, delivered_at, error FROM digest_deliveries"
            " WHERE issue_id = ANY(:ids) ORDER BY kind"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            rows = await connection.execute(statement, {"ids": list(issue_ids)})
            return [Sending(**row) for row in rows.mappings()]

    async def to_send(self, now: datetime, kinds: Sequence[str], *, limit: int) -> list[tuple[Sending, Issue]]:
        """Of all tenants, those that wait longest first."""
        statement = text(
            "SELECT s.issue_id, s.kind, s.state, s.attempts AS tries, s.due_at, s.delivered_at, s.error AS why,"
            f" {_COLUMNS} FROM digest_deliveries s JOIN digest_issues i ON i.id = s.issue_id"
            " WHERE s.state = 'waiting' AND s.due_at <= :now AND s.kind = ANY(:kinds)"
            " ORDER BY s.due_at, s.issue_id LIMIT :limit"
        )
        values = {"now": now, "kinds": list(kinds), "limit": limit}
        async with self._database.connect() as connection:
            return [(_sending(row), issue_of(row)) for row in await connection.execute(statement, values)]

    async def sent(self, sending: Sending, now: datetime) -> None:
        await self._mark(sending, "state = 'delivered', delivered_at = :at, error = ''", at=now, error="")

    async def not_sent(self, sending: Sending, error: str, *, again_at: datetime | None) -> None:
        """Without a time there is no other attempt, until a person asks for one."""
        change = "error = :error, " + ("state = 'dead'" if again_at is None else "due_at = :at")
        await self._mark(sending, change, at=again_at, error=clean_text(error)[:LONGEST_ERROR])

    async def send_again(self, issue: Issue, now: datetime) -> bool:
        statement = text(
            "UPDATE digest_deliveries SET state = 'waiting', attempts = 0, due_at = :now, error = ''"
            " WHERE issue_id = :id AND tenant_id = :tenant AND state = 'dead'"
        )
        async with self._database.begin() as connection:
            done = await connection.execute(statement, {"id": issue.id, "tenant": issue.tenant_id, "now": now})
        return bool(done.rowcount)

    async def _mark(self, sending: Sending, change: str, **values: Any) -> None:
        statement = text(
            f"UPDATE digest_deliveries SET {change}, attempts = attempts + 1 WHERE issue_id = :id AND kind = :kind"
        )
        used = {name: value for name, value in values.items() if f":{name}" in change}
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": sending.issue_id, "kind": sending.kind, **used})


def issue_of(row: Row[Any]) -> Issue:
    return Issue(
        id=row.id,
        tenant_id=row.tenant_id,
        digest_id=row.digest_id,
        scheduled_for=row.scheduled_for,
        since=row.since,
        until=row.until,
        attempts=row.attempts,
        error=row.error,
        built_at=row.built_at,
        content=None if row.content is None else msgspec.convert(row.content, Content),
    )


def _sending(row: Row[Any]) -> Sending:
    return Sending(
        issue_id=row.issue_id,
        kind=row.kind,
        state=row.state,
        attempts=row.tries,
        due_at=row.due_at,
        delivered_at=row.delivered_at,
        error=row.why,
    )
