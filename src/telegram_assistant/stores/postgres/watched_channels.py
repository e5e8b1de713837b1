"""Channels that a tenant watches: requests for them, and subscriptions.

What a tenant asks for is read under row-level security.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import text

from telegram_assistant.domain.channel import Advice, ChannelRef, advise
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, SourceError
from telegram_assistant.stores.postgres.channel_settings import DEFAULT_ZONE, FIRST_GROUP, RESUME, derive_settings
from telegram_assistant.stores.postgres.channels import CAN_BE_READ, REAL, WATCHED
from telegram_assistant.stores.postgres.database import Store, as_tenant

HOURS, DAYS = 24, 7


@dataclass(frozen=True, slots=True)
class Request:
    """A user wants to watch `reference`."""

    id: int
    tenant_id: UUID
    user_id: UUID
    reference: str
    channel_id: int | None
    last_error: str | None
    attempts: int
    group_name: str | None = None

    @property
    def state(self) -> Literal["requested", "failed", "watched"]:
        if self.channel_id is not None:
            return "watched"
        return "failed" if self.last_error else "requested"

    @property
    def advice(self) -> Advice:
        return advise(self.last_error)


def no_account_joined(shown: str) -> str:
    return f"none of the Telegram accounts has joined {shown}: log in with one that has"


_REQUEST = ", ".join(Request.__dataclass_fields__)


class Requests(Store):
    """Requests to watch a channel, until Telegram confirms that it exists.

    A request is never lost: what fails is tried again, ever more rarely, and shows its error.
    """

    async def add(self, tenant_id: UUID, user_id: UUID, reference: str, group: str | None = None) -> None:
        """The same request again means: try now. `group`: where the channel is put, if it is in none."""
        statement = (
            "INSERT INTO channel_requests (tenant_id, user_id, reference, group_name)"
            " VALUES (:tenant, :user, :reference, :group)"
            " ON CONFLICT (tenant_id, reference) DO UPDATE SET next_attempt_at = NULL, channel_id = NULL,"
            " last_error = NULL, attempts = 0, group_name = excluded.group_name"
        )
        await self._run(statement, {"tenant": tenant_id, "user": user_id, "reference": reference, "group": group})

    async def open(self) -> list[Request]:
        statement = f"SELECT {_REQUEST} FROM channel_requests WHERE channel_id IS NULL ORDER BY id"
        return await self._all(Request, statement)

    async def get(self, tenant_id: UUID, reference: str) -> Request | None:
        statement = f"SELECT {_REQUEST} FROM channel_requests WHERE tenant_id = :t AND reference = :r"
        return await self._first(Request, statement, {"t": tenant_id, "r": reference})

    async def drop(self, tenant_id: UUID, reference: str) -> bool:
        statement = "DELETE FROM channel_requests WHERE tenant_id = :t AND reference = :r"
        return bool(await self._run(statement, {"t": tenant_id, "r": reference}))

    async def take(self, *, now: datetime, hold: timedelta, limit: int, without: Collection[int] = ()) -> list[Request]:
        """Those whose turn it is. Tenants take turns, so that a long list of one keeps none of the others waiting.

        `hold` keeps other processes off while we ask Telegram.
        """
        statement = (
            "WITH turns AS MATERIALIZED (SELECT id, row_number() OVER (PARTITION BY tenant_id ORDER BY id) AS turn"
            " FROM channel_requests WHERE channel_id IS NULL AND (next_attempt_at IS NULL OR next_attempt_at <= :now)"
            " AND NOT id = ANY(:without)),"
            " due AS MATERIALIZED (SELECT r.id FROM channel_requests r JOIN turns USING (id)"
            " WHERE r.channel_id IS NULL AND (r.next_attempt_at IS NULL OR r.next_attempt_at <= :now)"
            " ORDER BY turn, r.id LIMIT :limit FOR UPDATE OF r SKIP LOCKED)"
            " UPDATE channel_requests SET next_attempt_at = :until, attempts = attempts + 1"
            f" WHERE id IN (SELECT id FROM due) RETURNING {_REQUEST}"
        )
        values = {"now": now, "until": now + hold, "limit": limit, "without": list(without)}
        return sorted(await self._all(Request, statement, values), key=lambda request: request.id)

    async def fail(self, request: Request, error: str, *, next_attempt_at: datetime) -> None:
        statement = "UPDATE channel_requests SET last_error = :error, next_attempt_at = :next WHERE id = :id"
        await self._run(statement, {"id": request.id, "error": error, "next": next_attempt_at})

    async def put_off_names(self, error: str, *, until: datetime) -> None:
        """Telegram answers no question for a name before that: none of the others need be tried."""
        statement = (
            "UPDATE channel_requests SET last_error = :error, next_attempt_at = :until WHERE channel_id IS NULL"
            " AND reference LIKE '@%' AND (next_attempt_at IS NULL OR next_attempt_at < :until)"
        )
        await self._run(statement, {"error": error, "until": until})

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
                    " access_hash = channels.access_hash || excluded.access_hash, failures = 0,"
                    " status = CASE WHEN channels.status = 'paused' THEN 'paused' ELSE 'active' END,"
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
            mine = {"tenant": request.tenant_id, "channel": info.id}
            await connection.execute(RESUME, mine)
            if request.group_name:
                await connection.execute(FIRST_GROUP, {**mine, "group": request.group_name})
            await derive_settings(connection, info.id)
            await connection.execute(
                text("UPDATE channel_requests SET channel_id = :channel, last_error = NULL WHERE id = :id"),
                {"channel": info.id, "id": request.id},
            )


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
    status: str  # active | dead | paused, by the tenant that asks
    paused_at: datetime | None
    priority: int
    timezone: str
    group: str  # in which the tenant keeps it; empty: in none
    captured: int
    newest_id: int
    requested_from: int | None  # None: it was not visited yet
    requested: int  # ids that were asked for,
    known: int  # of those,
    proven_up_to: int  # and every one of them up to this is known
    history_from: datetime | None  # history was asked for and not begun yet
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
        wanted = self.history_from is not None or (self.unknown > 0 and self.last_success_at is not None)
        return wanted and self.paused_at is None

    @property
    def advice(self) -> Advice:
        return advise(self.last_error, given_up=self.status == "dead")


@dataclass(frozen=True, slots=True)
class Known:
    """What is publicly known of a channel that a user may want to watch."""

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


_COUNTED = {
    "private": "channels.tenant_id IS NOT NULL",
    "status": "CASE WHEN mine.paused_at IS NULL THEN channels.status ELSE 'paused' END",
    "paused_at": "mine.paused_at",
    "failures": "CASE WHEN mine.paused_at IS NULL THEN channels.failures ELSE 0 END",
    "last_error": "CASE WHEN mine.paused_at IS NULL THEN channels.last_error END",
    "next_visit_at": "CASE WHEN mine.paused_at IS NULL THEN channels.next_visit_at END",
    "priority": "coalesce(mine.priority, 0)",
    "timezone": f"coalesce(mine.timezone, '{DEFAULT_ZONE}')",
    "group": "coalesce(mine.group_name, '')",
    "requested": "asked.stop - asked.start",
    "known": (
        "coalesce((SELECT sum(upper(r) - lower(r))"
        " FROM unnest(coverage * int8multirange(int8range(asked.start, asked.stop))) AS r), 0)::bigint"
    ),
    "proven_up_to": (
        "coalesce((SELECT upper(r) - 1 FROM unnest(coverage) AS r WHERE r @> asked.start LIMIT 1), asked.start - 1)"
    ),
}
_COLUMNS = {name: f"channels.{name}" for name in Watched.__dataclass_fields__} | _COUNTED
_SELECT = (
    f"SELECT {', '.join(f'{column} AS {name}' for name, column in _COLUMNS.items())} FROM channels"
    " LEFT JOIN channel_settings mine ON mine.channel_id = channels.id, LATERAL (SELECT"  # one row: the tenant's
    " coalesce(requested_from, newest_id + 1) AS start, greatest(requested_from, newest_id + 1) AS stop) AS asked"
    f" WHERE {WATCHED}"
)


class WatchedChannels(Store):
    """The channels of one tenant or another; which, the caller says with every question."""

    async def page(
        self, tenant_id: UUID, *, limit: int, after: tuple[str, int] | None = None, words: str = "", group: str = ""
    ) -> list[Watched]:
        """By title; `after` is the last of the page before, as (its title, its id). `group`: only what is in it."""
        statement = (
            f"{_SELECT} AND (CAST(:after_title AS text) IS NULL"
            " OR (lower(title), id) > (lower(:after_title), :after_id))"
            " AND (strpos(lower(title), lower(:words)) > 0 OR strpos(lower(username), lower(:name)) > 0)"
            " AND (CAST(:group AS text) = '' OR mine.group_name = :group)"
            " ORDER BY lower(title), id LIMIT :limit"
        )
        title, number = after or (None, 0)
        values = {"after_title": title, "after_id": number, "limit": limit}
        names = {"words": words, "name": words.removeprefix("@"), "group": group}
        return await self._all(Watched, statement, values | names, tenant=tenant_id)

    async def summary(self, tenant_id: UUID) -> Summary:
        statement = (
            "SELECT count(*), coalesce(sum(captured), 0), count(*) FILTER ("
            "WHERE (failures > 0 OR status = 'dead') AND mine.paused_at IS NULL)"
            f" FROM channels LEFT JOIN channel_settings mine ON mine.channel_id = channels.id WHERE {WATCHED}"
        )
        [row] = await self._rows(statement, tenant=tenant_id)
        return Summary(*map(int, row))

    async def groups(self, tenant_id: UUID) -> list[str]:
        """Their names."""
        statement = "SELECT DISTINCT group_name FROM channel_settings WHERE group_name <> '' ORDER BY group_name"
        return [str(row[0]) for row in await self._rows(statement, tenant=tenant_id)]

    async def get(self, tenant_id: UUID, channel_id: int) -> Watched | None:
        return await self._first(Watched, f"{_SELECT} AND id = :id", {"id": channel_id}, tenant=tenant_id)

    async def by_ref(self, tenant_id: UUID, ref: ChannelRef) -> Watched | None:
        statement = f"{_SELECT} AND (lower(username) = :name OR id = CAST(:id AS bigint))"
        return await self._first(Watched, statement, {"name": ref.username, "id": ref.channel_id}, tenant=tenant_id)

    async def filling(self, tenant_id: UUID, *, limit: int) -> list[Watched]:
        """Channels whose older posts are on their way, those with the most to come first."""
        statement = (
            f"{_SELECT} AND status = 'active' AND requested_from IS NOT NULL"
            f" AND {CAN_BE_READ} AND (history_from IS NOT NULL OR NOT coverage @> int8range(asked.start, asked.stop))"
            " ORDER BY asked.stop - asked.start DESC LIMIT :limit"
        )
        return await self._all(Watched, statement, {"limit": limit}, tenant=tenant_id)

    async def made_up(self, tenant_id: UUID) -> list[int]:
        """In a demo: the channels of its simulated Telegram."""
        statement = f"SELECT id FROM channels WHERE {WATCHED} AND NOT {REAL} ORDER BY id"
        return [int(row[0]) for row in await self._rows(statement, tenant=tenant_id)]

    async def public(self, username: str) -> Known | None:
        """Of a public channel that any tenant watches: what its own page says too."""
        statement = (
            "SELECT username, title, about, subscribers FROM channels"
            f" WHERE lower(username) = :name AND tenant_id IS NULL AND {WATCHED}"
        )
        return await self._first(Known, statement, {"name": username})

    async def requests(self, tenant_id: UUID, *, limit: int) -> list[Request]:
        """Requests that are still open, newest first."""
        statement = f"SELECT {_REQUEST} FROM channel_requests WHERE channel_id IS NULL ORDER BY id DESC LIMIT :limit"
        return await self._all(Request, statement, {"limit": limit}, tenant=tenant_id)

    async def request(
        self, tenant_id: UUID, *, number: int | None = None, reference: str | None = None
    ) -> Request | None:
        """By its number, or by its reference; fulfilled or not."""
        statement = (
            f"SELECT {_REQUEST} FROM channel_requests"
            " WHERE id = CAST(:number AS bigint) OR reference = CAST(:reference AS text)"
        )
        return await self._first(Request, statement, {"number": number, "reference": reference}, tenant=tenant_id)

    async def drop_request(self, tenant_id: UUID, number: int) -> bool:
        statement = "DELETE FROM channel_requests WHERE id = :number AND channel_id IS NULL"
        return bool(await self._run(statement, {"number": number}, tenant=tenant_id))

    async def watch(self, tenant_id: UUID, user_id: UUID, channel_id: int) -> None:
        """A channel that was captured before; one that is not known yet needs a request."""
        statement = text(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :id)"
            " ON CONFLICT DO NOTHING"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"tenant": tenant_id, "user": user_id, "id": channel_id})
            await derive_settings(connection, channel_id)

    async def unwatch(self, tenant_id: UUID, channel_id: int) -> None:
        """The tenant does not see it any more. A channel without subscribers is not visited; its posts stay."""
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
        statement = (
            "SELECT extract(isodow FROM at AT TIME ZONE :zone)::int - 1, extract(hour FROM at AT TIME ZONE :zone)::int,"
            " count(*) FROM (SELECT min(posted_at) AS at FROM posts WHERE channel_id = :id AND posted_at >= :since"
            " GROUP BY coalesce(grouped_id, -message_id)) AS arrivals GROUP BY 1, 2"
        )
        counts = [[0] * HOURS for _ in range(DAYS)]
        values = {"id": channel_id, "zone": timezone, "since": since}
        for day, hour, posts in await self._rows(statement, values, tenant=tenant_id):
            counts[day][hour] = posts
        return counts
