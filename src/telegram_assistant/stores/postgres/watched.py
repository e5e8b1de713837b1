"""What a tenant watches, as its people see it: channels with their coverage, and the wishes that are still open.

Everything is read under row-level security. Priority and time zone are the tenant's own (channel_settings.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.stores.postgres.channel_settings import DEFAULT_ZONE, derive_settings
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_assistant.stores.postgres.requests import COLUMNS as REQUEST_COLUMNS
from telegram_assistant.stores.postgres.requests import Request

HOURS, DAYS = 24, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A channel that a tenant watches, and how completely it is known."""

    id: int
    username: str | None
    title: str
    about: str
    is_group: bool
    subscribers: int | None
    private: bool
    status: str  # active | dead
    priority: int
    timezone: str
    captured: int
    newest_id: int
    requested_from: int | None  # None: it was not visited yet
    requested: int  # ids that somebody asked for,
    known: int  # of those,
    proven_up_to: int  # and every one of them up to this is known
    history_from: datetime | None  # somebody asked for history that was not begun yet
    last_post_at: datetime | None
    last_success_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    failures: int
    next_visit_at: datetime | None
    hidden_up_to: int = 0  # a group shows our accounts nothing up to this id
    protected: bool = False  # its owner forbids to save its content

    @property
    def shown(self) -> str:
        return f"@{self.username}" if self.username else self.title

    @property
    def url(self) -> str | None:
        """In Telegram; a private one has none that others could open."""
        return f"https://t.me/{self.username}" if self.username else None

    @property
    def unknown(self) -> int:
        return self.requested - self.known

    @property
    def percent(self) -> float:
        """Rounded down: it says 100 only when nothing is unknown."""
        return 100.0 if not self.requested else self.known * 10_000 // self.requested / 100

    @property
    def filling(self) -> bool:
        """Older posts are on their way."""
        return self.history_from is not None or self.unknown > 0


@dataclass(frozen=True, slots=True)
class Known:
    """What is publicly known of a channel that somebody may want to watch."""

    username: str | None
    title: str
    about: str
    subscribers: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """All that a tenant watches, in three figures."""

    channels: int
    captured: int
    failing: int


_FIELDS = tuple(Watched.__dataclass_fields__)
_COUNTED = {
    "private": "channels.tenant_id IS NOT NULL",
    "priority": "coalesce(mine.priority, 0)",
    "timezone": f"coalesce(mine.timezone, '{DEFAULT_ZONE}')",
    "requested": "asked.stop - asked.start",
    "known": (
        "coalesce((SELECT sum(upper(r) - lower(r))"
        " FROM unnest(coverage * int8multirange(int8range(asked.start, asked.stop))) AS r), 0)::bigint"
    ),
    "proven_up_to": (
        "coalesce((SELECT upper(r) - 1 FROM unnest(coverage) AS r WHERE r @> asked.start LIMIT 1), asked.start - 1)"
    ),
}
_SELECT = (
    f"SELECT {', '.join(_COUNTED.get(name, f'channels.{name}') for name in _FIELDS)} FROM channels"
    " LEFT JOIN channel_settings mine ON mine.channel_id = channels.id, LATERAL (SELECT"  # one row: the tenant's
    " coalesce(requested_from, newest_id + 1) AS start, greatest(requested_from, newest_id + 1) AS stop) AS asked"
    " WHERE status IN ('active', 'dead')"
)


class WatchedChannels:
    """The channels of one tenant or another; which, the caller says with every question."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def page(
        self, tenant_id: UUID, *, limit: int, after: tuple[str, int] | None = None, words: str = ""
    ) -> list[Watched]:
        """By title; `after` is the last of the page before, as (its title, its id)."""
        statement = text(
            f"{_SELECT} AND (CAST(:after_title AS text) IS NULL"
            " OR (lower(title), id) > (lower(:after_title), :after_id))"
            " AND (strpos(lower(title), lower(:words)) > 0 OR strpos(lower(username), lower(:name)) > 0)"
            " ORDER BY lower(title), id LIMIT :limit"
        )
        title, number = after or (None, 0)
        values = {"after_title": title, "after_id": number, "limit": limit}
        names = {"words": words, "name": words.removeprefix("@")}
        async with as_tenant(self._database, tenant_id) as connection:
            return [_watched(row) for row in await connection.execute(statement, values | names)]

    async def summary(self, tenant_id: UUID) -> Summary:
        statement = text(
            "SELECT count(*), coalesce(sum(captured), 0), count(*) FILTER (WHERE failures > 0 OR status = 'dead')"
            " FROM channels WHERE status IN ('active', 'dead')"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            channels, captured, failing = (await connection.execute(statement)).one()
        return Summary(int(channels), int(captured), int(failing))

    async def get(self, tenant_id: UUID, channel_id: int) -> Watched | None:
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(text(f"{_SELECT} AND id = :id"), {"id": channel_id})).first()
        return None if row is None else _watched(row)

    async def by_ref(self, tenant_id: UUID, ref: ChannelRef) -> Watched | None:
        statement = text(f"{_SELECT} AND (lower(username) = :name OR id = CAST(:id AS bigint))")
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(statement, {"name": ref.username, "id": ref.channel_id})).first()
        return None if row is None else _watched(row)

    async def filling(self, tenant_id: UUID, *, limit: int) -> list[Watched]:
        """Channels whose older posts are on their way, those with the most to come first."""
        statement = text(
            f"{_SELECT} AND status = 'active' AND requested_from IS NOT NULL AND (history_from IS NOT NULL"
            " OR NOT coverage @> int8range(asked.start, asked.stop))"
            " ORDER BY asked.stop - asked.start DESC LIMIT :limit"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            return [_watched(row) for row in await connection.execute(statement, {"limit": limit})]

    async def public(self, username: str) -> Known | None:
        """Of a public channel that is known here, whoever watches it: what its own page says too."""
        statement = text(
            "SELECT username, title, about, subscribers FROM channels"
            " WHERE lower(username) = :name AND tenant_id IS NULL AND status IN ('active', 'dead')"
        )
        async with self._database.connect() as connection:
            row = (await connection.execute(statement, {"name": username})).first()
        return None if row is None else Known(*row)

    async def requests(self, tenant_id: UUID, *, limit: int) -> list[Request]:
        """Wishes that are still open, newest first."""
        statement = text(
            f"SELECT {REQUEST_COLUMNS} FROM channel_requests WHERE channel_id IS NULL ORDER BY id DESC LIMIT :limit"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            return [Request(*row) for row in await connection.execute(statement, {"limit": limit})]

    async def request(
        self, tenant_id: UUID, *, number: int | None = None, reference: str | None = None
    ) -> Request | None:
        """By its number, or by what was wished for; fulfilled or not."""
        statement = text(
            f"SELECT {REQUEST_COLUMNS} FROM channel_requests"
            " WHERE id = CAST(:number AS bigint) OR reference = CAST(:reference AS text)"
        )
        async with as_tenant(self._database, tenant_id) as connection:
            row = (await connection.execute(statement, {"number": number, "reference": reference})).first()
        return None if row is None else Request(*row)

    async def drop_request(self, tenant_id: UUID, number: int) -> bool:
        statement = text("DELETE FROM channel_requests WHERE id = :number AND channel_id IS NULL")
        async with as_tenant(self._database, tenant_id) as connection:
            return bool((await connection.execute(statement, {"number": number})).rowcount)

    async def watch(self, tenant_id: UUID, user_id: UUID, channel_id: int) -> None:
        """One that was captured before; what is not known yet is wished for (requests.py)."""
        statement = text(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :id)"
            " ON CONFLICT DO NOTHING"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"tenant": tenant_id, "user": user_id, "id": channel_id})
            await derive_settings(connection, channel_id)

    async def unwatch(self, tenant_id: UUID, channel_id: int) -> None:
        """The tenant's people do not see it any more. Nobody visits what nobody watches; what was captured stays."""
        async with as_tenant(self._database, tenant_id) as connection:
            for table in ("subscriptions", "channel_requests"):
                await connection.execute(text(f"DELETE FROM {table} WHERE channel_id = :id"), {"id": channel_id})
        async with self._database.begin() as connection:
            left = text("DELETE FROM channel_settings WHERE channel_id = :id AND tenant_id = :tenant")
            await connection.execute(left, {"id": channel_id, "tenant": tenant_id})
            await derive_settings(connection, channel_id)
            await connection.execute(
                text(
                    "UPDATE channels SET status = 'removed', next_visit_at = NULL WHERE id = :id"
                    " AND status IN ('active', 'dead')"
                    " AND NOT EXISTS (SELECT 1 FROM subscriptions WHERE channel_id = :id)"
                ),
                {"id": channel_id},
            )

    async def by_hour(self, tenant_id: UUID, channel_id: int, *, timezone: str, since: datetime) -> list[list[int]]:
        """How many posts came by weekday (Monday first) and hour, on the clocks of that zone; an album is one."""
        statement = text(
            "SELECT extract(isodow FROM at AT TIME ZONE :zone)::int - 1, extract(hour FROM at AT TIME ZONE :zone)::int,"
            " count(*) FROM (SELECT min(posted_at) AS at FROM posts WHERE channel_id = :id AND posted_at >= :since"
            " GROUP BY coalesce(grouped_id, -message_id)) AS arrivals GROUP BY 1, 2"
        )
        counts = [[0] * HOURS for _ in range(DAYS)]
        values = {"id": channel_id, "zone": timezone, "since": since}
        async with as_tenant(self._database, tenant_id) as connection:
            for day, hour, posts in await connection.execute(statement, values):
                counts[day][hour] = posts
        return counts


def _watched(row: Row[Any]) -> Watched:
    return Watched(**dict(zip(_FIELDS, row, strict=True)))
