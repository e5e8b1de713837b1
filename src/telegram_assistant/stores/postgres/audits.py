"""Audits of channels: what was captured is compared with Telegram, and what cannot be read is remembered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from telegram_assistant.domain.accounts import Reach
from telegram_assistant.stores.postgres.accounts import readable
from telegram_assistant.stores.postgres.database import Store
from telegram_assistant.stores.postgres.posts import Connection

# Between two full audits of a channel of whose changes Telegram tells us too little, or nothing.
AGAIN = timedelta(hours=1)
RARELY = timedelta(days=1)
RECENT = 1000  # posts from which a sample takes its half


async def record_pts(connection: Connection, channel_id: int, pts: int) -> None:
    """Every change up to this number is stored with what this transaction stores."""
    await connection.execute(
        "INSERT INTO channel_audits (channel_id, pts) VALUES ($1, $2) ON CONFLICT (channel_id)"
        " DO UPDATE SET pts = greatest(channel_audits.pts, excluded.pts)",
        channel_id,
        pts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """How far the full audit of a channel is, or how the last one was."""

    channel_id: int
    wanted_at: datetime | None
    reason: str | None
    began_at: datetime | None
    below_id: int | None
    done: int
    total: int
    found: int
    audited_at: datetime | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """All full audits that are not done yet."""

    channels: int
    posts: int  # of those that have begun: what is left of them; of the others: all
    since: datetime | None


COLUMNS = ", ".join(Audit.__dataclass_fields__)


class Audits(Store):
    """For capture, which works for all tenants."""

    async def pts(self, channel_id: int) -> int | None:
        statement = "SELECT pts FROM channel_audits WHERE channel_id = :id"
        found: int | None = await self._value(statement, {"id": channel_id})
        return found

    async def get(self, channel_id: int) -> Audit | None:
        statement = f"SELECT {COLUMNS} FROM channel_audits WHERE channel_id = :id"
        return await self._first(Audit, statement, {"id": channel_id})

    async def want(self, channel_id: int, reason: str, now: datetime, *, pts: int | None = None) -> None:
        """Ask for a full audit, and go on counting changes from `pts`; None: from what a next page tells.

        One that is under way is done again afterwards: what it has passed may have changed since.
        """
        statement = (
            "INSERT INTO channel_audits (channel_id, pts, wanted_at, reason, next_at)"
            " VALUES (:id, :pts, :now, :reason, :now) ON CONFLICT (channel_id) DO UPDATE SET pts = excluded.pts,"
            " wanted_at = excluded.wanted_at, reason = excluded.reason, next_at = CASE"
            " WHEN channel_audits.wanted_at IS NOT NULL THEN channel_audits.next_at"
            " ELSE greatest(:now, channel_audits.audited_at + :again) END"
        )
        again = RARELY if reason in {"lost", "refused"} else AGAIN
        values = {"id": channel_id, "pts": pts, "now": now, "reason": reason, "again": again}
        await self._run(statement, values)

    async def wanted_since(self, channel_id: int, moment: datetime) -> bool:
        """Whether a full audit was asked for or done since then."""
        statement = "SELECT 1 FROM channel_audits WHERE channel_id = :id AND greatest(wanted_at, audited_at) > :moment"
        return await self._row(statement, {"id": channel_id, "moment": moment}) is not None

    async def take(self, now: datetime, hold: timedelta, reach: Reach | None = None) -> Audit | None:
        """Whose turn it is: full audits first, each in its turn; for so long no other process gets it."""
        ours, able = readable(reach, table="c")
        ours = f"EXISTS (SELECT FROM channels c WHERE c.id = channel_audits.channel_id AND {ours})" if able else ours
        for condition in ("wanted_at IS NOT NULL", "wanted_at IS NULL"):
            statement = (
                f"UPDATE channel_audits SET next_at = :until WHERE channel_id = (SELECT channel_id FROM channel_audits"
                f" WHERE {condition} AND next_at <= :now AND {ours} ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
                f" RETURNING {COLUMNS}"
            )
            taken = await self._first(Audit, statement, {"now": now, "until": now + hold, **able})
            if taken is not None:
                return taken
        return None

    async def put_off(self, channel_id: int, next_at: datetime) -> None:
        statement = "UPDATE channel_audits SET next_at = :next WHERE channel_id = :id"
        await self._run(statement, {"id": channel_id, "next": next_at})

    async def begin(self, channel_id: int, now: datetime) -> None:
        """A full audit starts at the top, with what is stored now."""
        statement = (
            "UPDATE channel_audits SET began_at = :now, below_id = NULL, done = 0, found = 0, total = (SELECT count(*)"
            " FROM posts WHERE channel_id = :id AND deleted_at IS NULL) WHERE channel_id = :id"
        )
        await self._run(statement, {"id": channel_id, "now": now})

    async def advance(self, channel_id: int, *, below_id: int, done: int, found: int) -> None:
        """So many further posts were read again, down to this id."""
        statement = (
            "UPDATE channel_audits SET below_id = :below, done = done + :done, found = found + :found"
            " WHERE channel_id = :id"
        )
        await self._run(statement, {"id": channel_id, "below": below_id, "done": done, "found": found})

    async def end(self, channel_id: int, now: datetime, next_at: datetime) -> None:
        """The audit is done; one that was asked for meanwhile stays."""
        statement = (
            "UPDATE channel_audits SET audited_at = :now, began_at = NULL,"
            " next_at = CASE WHEN wanted_at > began_at THEN CAST(:again AS timestamptz)"
            " ELSE :next END,"
            " wanted_at = CASE WHEN wanted_at > began_at THEN wanted_at END WHERE channel_id = :id"
        )
        values = {"id": channel_id, "now": now, "next": next_at, "again": now + AGAIN}
        await self._run(statement, values)

    async def stored_below(self, channel_id: int, below_id: int | None, limit: int) -> list[int]:
        """The newest stored posts below an id, which are not known to be deleted; descending."""
        statement = text(
            "SELECT message_id FROM posts WHERE channel_id = :id AND deleted_at IS NULL"
            " AND (CAST(:below AS bigint) IS NULL OR message_id < :below) ORDER BY message_id DESC LIMIT :limit"
        )
        values = {"id": channel_id, "below": below_id, "limit": limit}
        return [row[0] for row in await self._rows(statement, values)]

    async def sample(self, channel_id: int, size: int) -> list[int]:
        """Stored posts at random, half of them among the newest; those that were taken for deleted too."""
        of_channel = "SELECT message_id FROM posts WHERE channel_id = :id"
        statement = text(
            f"SELECT message_id FROM ({of_channel} ORDER BY message_id DESC LIMIT {RECENT}) AS newest"
            f" ORDER BY random() LIMIT :half"
        )
        others = text(f"{of_channel} AND NOT message_id = ANY(:chosen) ORDER BY random() LIMIT :rest")
        async with self._database.connect() as connection:
            found = await connection.execute(statement, {"id": channel_id, "half": size // 2})
            chosen = list(found.scalars())
            values = {"id": channel_id, "chosen": chosen, "rest": size - len(chosen)}
            return sorted([*chosen, *(await connection.execute(others, values)).scalars()])

    async def waiting(self) -> Waiting:
        statement = text(
            "SELECT count(*), coalesce(sum(CASE WHEN a.began_at IS NULL THEN c.captured ELSE greatest(a.total - a.done,"
            " 0) END), 0)::bigint, min(a.wanted_at) FROM channel_audits a JOIN channels c ON c.id = a.channel_id"
            " WHERE a.wanted_at IS NOT NULL AND c.status <> 'paused'"
        )
        async with self._database.connect() as connection:
            return Waiting(*(await connection.execute(statement)).one())


# A first retry after an hour, then twice as long each time, at most a month.
NEXT = "CAST(:now AS timestamptz) + least(interval '1 hour' * power(2, least({tries}, 12)), interval '30 days')"


class Unreadable(Store):
    """What was found out about a channel's messages. Another version of the reader tries all of them at once."""

    async def use_reader(self, reader: str, now: datetime) -> None:
        """At the start of a process: try again what another reader could not parse."""
        statement = "UPDATE unreadable_messages SET reader = :reader, next_at = :now WHERE reader <> :reader"
        await self._run(statement, {"reader": reader, "now": now})

    async def known(self, channel_id: int, now: datetime) -> dict[int, bool]:
        """By message id, whether it is left alone now."""
        statement = "SELECT message_id, next_at > :now AS alone FROM unreadable_messages WHERE channel_id = :id"
        rows = await self._rows(statement, {"id": channel_id, "now": now})
        return {row.message_id: row.alone for row in rows}

    async def found(self, channel_id: int, ids: Collection[int], reader: str, now: datetime) -> None:
        """These could not be parsed, for the first time or again."""
        statement = (
            "INSERT INTO unreadable_messages AS known (channel_id, message_id, reader, first_at, next_at)"
            f" SELECT :id, message_id, :reader, :now, {NEXT.format(tries='0')} FROM unnest(CAST(:ids AS bigint[])) AS"
            " message_id ON CONFLICT (channel_id, message_id) DO UPDATE SET reader = excluded.reader,"
            f" tries = known.tries + 1, next_at = {NEXT.format(tries='known.tries')}"
        )
        values = {"id": channel_id, "ids": list(ids), "reader": reader, "now": now}
        await self._run(statement, values)

    async def forget(self, channel_id: int, ids: Collection[int]) -> None:
        """These can be read now, or are gone."""
        statement = "DELETE FROM unreadable_messages WHERE channel_id = :id AND message_id = ANY(:ids)"
        await self._run(statement, {"id": channel_id, "ids": list(ids)})
