"""Wishes to watch a channel, until Telegram has confirmed that it exists; and subscriptions, which follow from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, SourceError
from telegram_assistant.stores.postgres.channel_settings import derive_settings


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody wants to watch `reference`."""

    id: int
    tenant_id: UUID
    user_id: UUID
    reference: str
    channel_id: int | None
    last_error: str | None
    attempts: int


def no_account_joined(shown: str) -> str:
    return f"none of the Telegram accounts has joined {shown}: log in with one that has"


COLUMNS = "id, tenant_id, user_id, reference, channel_id, last_error, attempts"


class Requests:
    """The queue of wishes. A wish is never lost: what fails is tried again, ever more rarely, and shows its error."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def add(self, tenant_id: UUID, user_id: UUID, reference: str) -> None:
        """The same wish again means: try now."""
        statement = text(
            "INSERT INTO channel_requests (tenant_id, user_id, reference) VALUES (:tenant, :user, :reference)"
            " ON CONFLICT (tenant_id, reference) DO UPDATE SET next_attempt_at = NULL, channel_id = NULL,"
            " last_error = NULL, attempts = 0"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"tenant": tenant_id, "user": user_id, "reference": reference})

    async def open(self) -> list[Request]:
        statement = text(f"SELECT {COLUMNS} FROM channel_requests WHERE channel_id IS NULL ORDER BY id")
        async with self._database.connect() as connection:
            return [Request(*row) for row in await connection.execute(statement)]

    async def get(self, tenant_id: UUID, reference: str) -> Request | None:
        statement = text(f"SELECT {COLUMNS} FROM channel_requests WHERE tenant_id = :t AND reference = :r")
        async with self._database.connect() as connection:
            row = (await connection.execute(statement, {"t": tenant_id, "r": reference})).first()
        return None if row is None else Request(*row)

    async def drop(self, tenant_id: UUID, reference: str) -> bool:
        statement = text("DELETE FROM channel_requests WHERE tenant_id = :t AND reference = :r")
        async with self._database.begin() as connection:
            result = await connection.execute(statement, {"t": tenant_id, "r": reference})
        return bool(result.rowcount)

    async def take(self, *, now: datetime, hold: timedelta, limit: int, without: Collection[int] = ()) -> list[Request]:
        """Those whose turn it is. `hold` keeps others off while we ask Telegram."""
        statement = text(
            "WITH due AS MATERIALIZED (SELECT id FROM channel_requests WHERE channel_id IS NULL"
            " AND (next_attempt_at IS NULL OR next_attempt_at <= :now) AND NOT id = ANY(:without)"
            " ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)"
            " UPDATE channel_requests SET next_attempt_at = :until, attempts = attempts + 1"
            f" WHERE id IN (SELECT id FROM due) RETURNING {COLUMNS}"
        )
        async with self._database.begin() as connection:
            values = {"now": now, "until": now + hold, "limit": limit, "without": list(without)}
            rows = await connection.execute(statement, values)
            return sorted((Request(*row) for row in rows), key=lambda request: request.id)

    async def fail(self, request: Request, error: str, *, next_attempt_at: datetime) -> None:
        statement = text("UPDATE channel_requests SET last_error = :error, next_attempt_at = :next WHERE id = :id")
        async with self._database.begin() as connection:
            await connection.execute(statement, {"id": request.id, "error": error, "next": next_attempt_at})

    async def fulfil(self, request: Request, info: ChannelInfo, account_id: str, now: datetime) -> None:
        """The channel exists: store it once for all, subscribe, and let the next visit come at once.

        A private one belongs to the tenant of the account that reads it. Raises SourceError where that is not the one
        that asks: it is told what it is told of a channel that does not exist.
        """
        async with self._database.begin() as connection:
            # A name may have moved to another channel; the newest answer of Telegram is right.
            await connection.execute(
                text("UPDATE channels SET username = NULL WHERE lower(username) = lower(:name) AND id <> :id"),
                {"name": info.username, "id": info.id},
            )
            made = await connection.execute(
                text(
                    "INSERT INTO channels (id, tenant_id, title, username, about, is_group, subscribers, linked_id,"
                    " access_hash, next_visit_at) VALUES (:id, CASE WHEN :private THEN coalesce((SELECT tenant_id"
                    " FROM telegram_accounts WHERE CAST(id AS text) = CAST(:account AS text)), :tenant) END,"
                    " :title, :username, :about, :is_group,"
                    " :subscribers, :linked_id,"
                    " jsonb_build_object(CAST(:account AS text), CAST(:hash AS bigint)), :now)"
                    " ON CONFLICT (id) DO UPDATE SET title = excluded.title, username = excluded.username,"
                    # Who knew the channel already does not say them again.
                    " about = coalesce(nullif(excluded.about, ''), channels.about),"
                    " subscribers = coalesce(excluded.subscribers, channels.subscribers),"
                    " access_hash = channels.access_hash || excluded.access_hash, status = 'active', failures = 0,"
                    " next_visit_at = least(channels.next_visit_at, excluded.next_visit_at) RETURNING tenant_id"
                ),
                {
                    "id": info.id,
                    "private": info.is_private,
                    "tenant": request.tenant_id,
                    "title": info.title,
                    "username": info.username,
                    "about": info.about,
                    "is_group": info.is_group,
                    "subscribers": info.subscribers,
                    "linked_id": info.linked_id,
                    "account": account_id,
                    "hash": info.access_hash,
                    "now": now,
                },
            )
            owner = made.scalar_one()
            if owner not in {None, request.tenant_id}:
                raise SourceError(Failure.CHANNEL_PRIVATE, no_account_joined(request.reference))
            await connection.execute(
                text(
                    "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)"
                    " ON CONFLICT DO NOTHING"
                ),
                {"tenant": request.tenant_id, "user": request.user_id, "channel": info.id},
            )
            await derive_settings(connection, info.id)
            await connection.execute(
                text("UPDATE channel_requests SET channel_id = :channel, last_error = NULL WHERE id = :id"),
                {"channel": info.id, "id": request.id},
            )
