"""Digests that people ordered, their issues and deliveries, and the posts that an issue is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import text

from telegram_assistant.domain.digests import (
    MOST_DIGESTS,
    Content,
    Digest,
    Issue,
    PostNow,
    Schedule,
    Wish,
)
from telegram_assistant.domain.post import post_url
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import Found, Store, as_jsonb, as_value

_WHEN = ("frequency", "weekday", "day", "minute", "zone")
_WISH = ("name", "topics", "channels", *_WHEN, "language", "most", "ads", "deliveries", "enabled")
_ALL = ("id", "tenant_id", "user_id", *_WISH, "feed_version", "next_at", "trouble")
COLUMNS = ", ".join(f"d.{name}" for name in _ALL)
_MINE = f"SELECT {COLUMNS}, d.created_at FROM digests d WHERE d.user_id = :user"
_OWN = "id = :id AND tenant_id = :tenant AND user_id = :user"


@dataclass(frozen=True, slots=True)
class Reader:
    """The user of a digest: what sending it needs."""

    name: str
    email: str | None
    telegram_user_id: int | None
    disabled: bool


class Digests(Store):
    """The table `digests`. Tenants may read it and nothing else: it is written here, for one user at a time."""

    async def of_user(self, tenant_id: UUID, user_id: UUID) -> list[Digest]:
        """The oldest first."""
        rows = await self._rows(f"{_MINE} ORDER BY d.created_at, d.id", {"user": user_id}, tenant=tenant_id)
        return [digest_of(row) for row in rows]

    async def get(self, tenant_id: UUID, user_id: UUID, digest_id: UUID) -> Digest | None:
        row = await self._row(f"{_MINE} AND d.id = :id", {"user": user_id, "id": digest_id}, tenant=tenant_id)
        return None if row is None else digest_of(row)

    async def any(self, digest_id: UUID) -> Digest | None:
        """Of any tenant: for sending, and for the feed, whose address is the credential."""
        statement = f"SELECT {COLUMNS}, d.created_at FROM digests d WHERE d.id = :id"
        row = await self._row(statement, {"id": digest_id})
        return None if row is None else digest_of(row)

    async def reader(self, digest: Digest) -> Reader | None:
        statement = "SELECT name, email, telegram_user_id, disabled FROM users WHERE id = :id"
        return await self._first(Reader, statement, {"id": digest.user_id})

    async def add(self, tenant_id: UUID, user_id: UUID, wish: Wish, *, next_at: datetime) -> UUID:
        """Raises Reject for one too many."""
        values = {"tenant": tenant_id, "user": user_id, "next": next_at, **_values(wish)}
        names = ", ".join(_WISH)
        async with self._database.begin() as connection:
            # The lock is on the user: two requests at once may not both be the last that is allowed.
            await connection.execute(text("SELECT 1 FROM users WHERE id = :user FOR UPDATE"), {"user": user_id})
            count = await connection.execute(
                text("SELECT count(*) FROM digests WHERE user_id = :user"), {"user": user_id}
            )
            if count.scalar_one() >= MOST_DIGESTS:
                raise Reject(f"there are {MOST_DIGESTS} digests already; remove one first")
            made = await connection.execute(
                text(
                    f"INSERT INTO digests (tenant_id, user_id, next_at, {names})"
                    f" VALUES (:tenant, :user, :next, {', '.join(f':{name}' for name in _WISH)}) RETURNING id"
                ),
                values,
            )
            found: UUID = made.scalar_one()
        return found

    async def change(self, digest: Digest, wish: Wish, *, next_at: datetime) -> None:
        changes = ", ".join(f"{name} = :{name}" for name in _WISH)
        statement = f"UPDATE digests SET {changes}, next_at = :next, trouble = '' WHERE {_OWN}"
        await self._write(statement, digest, next=next_at, **_values(wish))

    async def remove(self, digest: Digest) -> None:
        await self._write(f"DELETE FROM digests WHERE {_OWN}", digest)

    async def new_feed(self, digest: Digest) -> None:
        """The feed gets a new address; the old one stops working."""
        await self._write(f"UPDATE digests SET feed_version = feed_version + 1 WHERE {_OWN}", digest)

    async def due(self, now: datetime, *, limit: int) -> list[Digest]:
        """Of all tenants, those that wait longest first."""
        statement = (
            f"SELECT {COLUMNS}, d.created_at FROM digests d JOIN users u ON u.id = d.user_id"
            " WHERE d.enabled AND d.next_at <= :now AND NOT u.disabled ORDER BY d.next_at, d.id LIMIT :limit"
        )
        return [digest_of(row) for row in await self._rows(statement, {"now": now, "limit": limit})]

    async def give_up(self, digest: Digest, trouble: str) -> None:
        """It cannot be made any more until its owner changes it."""
        await self._write(
            f"UPDATE digests SET next_at = NULL, trouble = :trouble WHERE {_OWN}", digest, trouble=trouble
        )

    async def _write(self, statement: str, digest: Digest, **values: Any) -> None:
        own = {"id": digest.id, "tenant": digest.tenant_id, "user": digest.user_id}
        await self._run(statement, {**values, **own})


def digest_of(row: Found) -> Digest:
    schedule = as_value(Schedule, row)
    return as_value(Digest, row, wish=as_value(Wish, row, schedule=schedule, ways=row.deliveries))


def _values(wish: Wish) -> dict[str, Any]:
    plain = msgspec.to_builtins(wish)
    values = {**plain, **plain["schedule"], "deliveries": plain["ways"]}
    return {name: values[name] for name in _WISH}


LONGEST_ERROR = 500

_COLUMNS = (
    "i.id, i.tenant_id, i.digest_id, i.scheduled_for, i.since, i.until, i.attempts, i.error, i.built_at, i.content"
)
# The second of two processes finds another time there, and adds nothing.
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


class DigestIssues(Store):
    """The tables `digest_issues` and `digest_deliveries`."""

    async def plan(
        self, digest: Digest, slot: datetime, *, since: datetime, earliest: datetime, next_at: datetime
    ) -> bool:
        """An issue for this time, from where the last one ended; False: another process planned it."""
        values = {"id": digest.id, "was": digest.next_at, "next": next_at}
        new = {"tenant": digest.tenant_id, "id": digest.id, "slot": slot, "since": since, "earliest": earliest}
        async with self._database.begin() as connection:
            moved = (await connection.execute(text(_MOVE), values)).scalar_one_or_none()
            if moved is None:
                return False
            return (await connection.execute(text(_ADD), new)).scalar_one_or_none() is not None

    async def take(self, now: datetime, *, lease: timedelta) -> Issue | None:
        """One that has to be built. If this process dies, another takes it after the lease."""
        return await self._first(Issue, _TAKE, {"now": now, "until": now + lease})

    async def put_off(self, issue: Issue, error: str, try_at: datetime) -> None:
        statement = "UPDATE digest_issues SET error = :error, try_at = :at WHERE id = :id AND state = 'due'"
        values = {"id": issue.id, "error": clean_text(error)[:LONGEST_ERROR], "at": try_at}
        await self._run(statement, values)

    async def built(self, issue: Issue, content: Content, *, now: datetime, send: Sequence[str]) -> bool:
        """Store it, and what has to be sent, together; False: another process was quicker."""
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
        statement = (
            f"SELECT {_COLUMNS} FROM digest_issues i WHERE i.digest_id = :id AND i.state = 'built'{older}"
            " ORDER BY i.scheduled_for DESC LIMIT :limit"
        )
        values: dict[str, Any] = {"id": digest_id, "limit": limit}
        values |= {} if before is None else {"before": before}
        return await self._all(Issue, statement, values, tenant=tenant_id)

    async def waiting(self, tenant_id: UUID, digest_id: UUID) -> list[Issue]:
        """Those that are due and not built yet."""
        statement = (
            f"SELECT {_COLUMNS} FROM digest_issues i WHERE i.digest_id = :id AND i.state = 'due'"
            " ORDER BY i.scheduled_for"
        )
        return await self._all(Issue, statement, {"id": digest_id}, tenant=tenant_id)

    async def get(self, tenant_id: UUID, digest_id: UUID, issue_id: UUID) -> Issue | None:
        """A built one."""
        statement = (
            f"SELECT {_COLUMNS} FROM digest_issues i WHERE i.id = :id AND i.digest_id = :digest AND i.state = 'built'"
        )
        return await self._first(Issue, statement, {"id": issue_id, "digest": digest_id}, tenant=tenant_id)

    async def told(self, tenant_id: UUID, digest_id: UUID, *, since: datetime) -> set[UUID]:
        """Posts of stories that issues since then have told."""
        statement = (
            "SELECT DISTINCT p.id FROM digest_issues i, jsonb_array_elements(i.content->'stories') s,"
            " jsonb_array_elements_text(s->'posts') AS p(id)"
            " WHERE i.digest_id = :id AND i.state = 'built' AND i.scheduled_for >= :since"
        )
        rows = await self._rows(statement, {"id": digest_id, "since": since}, tenant=tenant_id)
        return {UUID(row.id) for row in rows}

    async def sendings(self, tenant_id: UUID, issue_ids: Sequence[UUID]) -> list[Sending]:
        statement = (
            "SELECT issue_id, kind, state, attempts, due_at, delivered_at, error FROM digest_deliveries"
            " WHERE issue_id = ANY(:ids) ORDER BY kind"
        )
        return await self._all(Sending, statement, {"ids": list(issue_ids)}, tenant=tenant_id)

    async def to_send(self, now: datetime, kinds: Sequence[str], *, limit: int) -> list[tuple[Sending, Issue]]:
        """Of all tenants, those that wait longest first."""
        statement = (
            "SELECT s.issue_id, s.kind, s.state, s.attempts AS tries, s.due_at, s.delivered_at, s.error AS why,"
            f" {_COLUMNS} FROM digest_deliveries s JOIN digest_issues i ON i.id = s.issue_id"
            " WHERE s.state = 'waiting' AND s.due_at <= :now AND s.kind = ANY(:kinds)"
            " ORDER BY s.due_at, s.issue_id LIMIT :limit"
        )
        values = {"now": now, "kinds": list(kinds), "limit": limit}
        rows = await self._rows(statement, values)
        return [(as_value(Sending, row, attempts=row.tries, error=row.why), as_value(Issue, row)) for row in rows]

    async def sent(self, sending: Sending, now: datetime) -> None:
        await self._mark(sending, "state = 'delivered', delivered_at = :at, error = ''", at=now, error="")

    async def not_sent(self, sending: Sending, error: str, *, again_at: datetime | None) -> None:
        """Without a time there is no other attempt, until a person asks for one."""
        change = "error = :error, " + ("state = 'dead'" if again_at is None else "due_at = :at")
        await self._mark(sending, change, at=again_at, error=clean_text(error)[:LONGEST_ERROR])

    async def send_again(self, issue: Issue, now: datetime) -> bool:
        statement = (
            "UPDATE digest_deliveries SET state = 'waiting', attempts = 0, due_at = :now, error = ''"
            " WHERE issue_id = :id AND tenant_id = :tenant AND state = 'dead'"
        )
        return bool(await self._run(statement, {"id": issue.id, "tenant": issue.tenant_id, "now": now}))

    async def _mark(self, sending: Sending, change: str, **values: Any) -> None:
        statement = (
            f"UPDATE digest_deliveries SET {change}, attempts = attempts + 1 WHERE issue_id = :id AND kind = :kind"
        )
        used = {name: value for name, value in values.items() if f":{name}" in change}
        await self._run(statement, {"id": sending.issue_id, "kind": sending.kind, **used})


_FACTS = """
SELECT p.id AS post_id, p.channel_id, p.message_id, p.posted_at, p.text, p.version, p.content_hash,
  coalesce(p.views, 0) AS views, coalesce(p.forwards, 0) AS forwards,
  coalesce(p.details->'forward' <> 'null', false) AS forwarded, p.details->'poll'->>'question' AS question,
  c.title AS channel, c.username, d.topics, d.tags, d.story_id,
  coalesce(d.language, '') AS language, coalesce(d.outline, '') AS outline
FROM posts p JOIN channels c ON c.id = p.channel_id LEFT JOIN search_documents d ON d.post_id = p.id
WHERE p.id = ANY(:ids) AND p.deleted_at IS NULL
"""
_NOW = "SELECT id AS post_id, version, content_hash, text, edited_at, deleted_at FROM posts WHERE id = ANY(:ids)"
_COUNT = """
SELECT count(*) FROM posts WHERE channel_id = ANY(:channels) AND posted_at >= :since AND posted_at < :until
  AND deleted_at IS NULL
"""
_STANDINGS = """
SELECT c.id AS channel_id, c.title AS channel, c.status, c.last_success_at, coalesce(c.last_error, '') AS last_error,
  c.failures,
  asked.stop - asked.start - coalesce((SELECT sum(upper(r) - lower(r))
    FROM unnest(c.coverage * int8multirange(int8range(asked.start, asked.stop))) AS r), 0)::bigint AS unknown
FROM channels c, LATERAL (SELECT coalesce(c.requested_from, c.newest_id + 1) AS start,
  greatest(c.requested_from, c.newest_id + 1) AS stop) AS asked
WHERE c.status NOT IN ('removed', 'linked', 'paused') ORDER BY c.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A post, as far as a digest needs it."""

    post_id: UUID
    channel_id: int
    channel: str
    url: str
    posted_at: datetime
    text: str
    version: int
    content_hash: str
    views: int
    forwards: int
    forwarded: bool
    topics: tuple[str, ...]
    labels: tuple[str, ...]  # topics and tags
    story_id: UUID | None
    language: str
    outline: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How well a channel is known."""

    channel_id: int
    channel: str
    status: str
    unknown: int  # message ids of which it is not known what they are
    last_success_at: datetime | None
    failures: int
    last_error: str


class DigestPosts(Store):
    """Reads as a tenant: what it may not see is not found."""

    async def standings(self, tenant_id: UUID) -> list[Standing]:
        """All channels of the tenant, without groups that are only read for comments."""
        return await self._all(Standing, _STANDINGS, tenant=tenant_id)

    async def count(self, tenant_id: UUID, channels: Sequence[int], since: datetime, until: datetime) -> int:
        values = {"channels": list(channels), "since": since, "until": until}
        return int(await self._value(_COUNT, values, tenant=tenant_id))

    async def facts(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, Facts]:
        """Of posts that are not deleted."""
        if not post_ids:
            return {}
        rows = await self._rows(_FACTS, {"ids": list(post_ids)}, tenant=tenant_id)
        return {row.post_id: _facts(row) for row in rows}

    async def now(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> dict[UUID, PostNow]:
        """Cited posts as they are, deleted ones too."""
        if not post_ids:
            return {}
        found = await self._all(PostNow, _NOW, {"ids": list(post_ids)}, tenant=tenant_id)
        return {one.post_id: one for one in found}


def _facts(row: Found) -> Facts:
    return as_value(
        Facts,
        row,
        url=post_url(row.username, row.channel_id, row.message_id),
        text="\n".join(part for part in (row.text, row.question) if part),
        topics=row.topics or (),
        labels=[*(row.topics or ()), *(row.tags or ())],
    )
