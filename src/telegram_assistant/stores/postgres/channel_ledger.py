"""A channel's row while something of it is saved: its ledger and cursor move in the transaction of the posts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.stores.postgres.posts import Connection

# What a group hides from all accounts that read it is not asked for, until one comes that is shown more.
HIDE = """
WITH told AS (
    SELECT access_hash AS hashes, hidden || jsonb_build_object($2::text, $3::bigint) AS by_account FROM channels
    WHERE id = $1
), shown AS (
    SELECT by_account, coalesce((SELECT min(value::bigint) FROM jsonb_each_text(by_account) AS one(account, value)
        WHERE account = $2::text OR jsonb_exists(hashes, account)), 0) AS nothing_up_to FROM told
)
UPDATE channels SET hidden = by_account, hidden_up_to = nothing_up_to,
    requested_from = greatest(coalesce(hidden_asked, requested_from), nothing_up_to + 1),
    hidden_asked = CASE WHEN coalesce(hidden_asked, requested_from) <= nothing_up_to
        THEN coalesce(hidden_asked, requested_from) END
FROM shown WHERE id = $1 AND (hidden, hidden_up_to) IS DISTINCT FROM (by_account, nothing_up_to)
"""


@dataclass(frozen=True, slots=True)
class Locked:
    """What the saver needs of the channel whose row it holds."""

    username: str | None
    tenant_id: UUID | None
    coverage: Coverage
    newest_id: int
    requested_from: int | None
    protected: bool


def coverage_of(ranges: list[asyncpg.Range[int]]) -> Coverage:
    return Coverage.of(*((found.lower or 0, found.upper or 0) for found in ranges))  # bounds are always there


def ranges_of(coverage: Coverage) -> list[asyncpg.Range[int]]:
    return [asyncpg.Range(start, stop) for start, stop in coverage]


async def lock_channel(connection: Connection, channel_id: int) -> Locked | None:
    """Hold the row until the transaction ends, so that two readers of one channel take turns.

    None where it is not watched any more: live updates and a backfill know nothing of that.
    """
    row = await connection.fetchrow(
        "SELECT username, tenant_id, coverage, newest_id, requested_from, protected FROM channels"
        " WHERE id = $1 AND status <> 'removed' FOR UPDATE",
        channel_id,
    )
    if row is None:
        return None
    coverage = coverage_of(row["coverage"])
    known = row["newest_id"], row["requested_from"], row["protected"]
    return Locked(row["username"], row["tenant_id"], coverage, *known)


async def record_reading(
    connection: Connection,
    channel_id: int,
    *,
    coverage: Coverage,
    newest_id: int,
    cursor_id: int | None,
    captured: int,
    last_post_at: datetime | None,
    parsed_at: datetime | None = None,
    hidden: tuple[str, int] | None = None,
) -> None:
    """Ledger and cursor move with the posts, in their transaction.

    `parsed_at` is when posts came outside of a visit; a channel that was never visited is still to be.
    """
    await connection.execute(
        "UPDATE channels SET coverage = $2, newest_id = greatest(newest_id, $3),"
        " cursor_id = greatest(cursor_id, coalesce($4, 0)), captured = captured + $5,"
        " last_post_at = greatest(last_post_at, $6),"
        " last_parsed_at = CASE WHEN last_parsed_at IS NOT NULL THEN coalesce($7, last_parsed_at) END WHERE id = $1",
        channel_id,
        ranges_of(coverage),
        newest_id,
        cursor_id,
        captured,
        last_post_at,
        parsed_at,
    )
    if hidden is not None:
        await connection.execute(HIDE, channel_id, *hidden)
