"""Channels: their ledger, leases and outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from telegram_assistant.domain.accounts import Reach
from telegram_assistant.domain.ledger import Coverage, LedgerState
from telegram_assistant.domain.visits import CHANGES, RECENT, covered_by
from telegram_assistant.stores.postgres.accounts import readable
from telegram_assistant.stores.postgres.database import Store, after_deadlock
from telegram_assistant.stores.postgres.posts import times_in, to_json
from telegram_assistant.stores.postgres.rhythms import Planned, planned_values

LONGEST_ERROR = 500
# Only an export told of it: the name of that origin stands where the accounts stand that can read it.
EXPORT = "export"
ONLY_EXPORTED = f'{{"{EXPORT}": 0}}'
REAL = f"jsonb_exists_any(access_hash, ARRAY['preview', '{EXPORT}'])"  # in a demo: what its Telegram did not make up
CAN_BE_READ = f"access_hash <> '{ONLY_EXPORTED}'"
THIS_OR_ALL = (
    f"CASE WHEN CAST(:id AS bigint) IS NULL THEN status = 'active' AND {CAN_BE_READ}"
    " ELSE id = :id AND status IN ('active', 'dead') END"
)
SHOWN = "status NOT IN ('removed', 'linked')"
KEPT = "status NOT IN ('removed', 'linked', 'paused')"  # those of which something is promised
WATCHED = "status IN ('active', 'dead', 'paused')"
ASKED = (
    "LATERAL (SELECT coalesce(requested_from, newest_id + 1) AS start,"
    " greatest(requested_from, newest_id + 1) AS stop) AS asked"
)
ASK_FROM = (
    "requested_from = greatest(least(requested_from, :first), hidden_up_to + 1), hidden_asked ="
    " CASE WHEN :first <= hidden_up_to THEN least(hidden_asked, :first) ELSE hidden_asked END"
)
# The sooner of two future times. A due channel stays due, unless it is visited now: that visit may come too early.
BY_THEN = (
    "CASE WHEN next_visit_at > :now THEN least(next_visit_at, :at)"
    " WHEN next_visit_at IS NULL OR leased_until > :now THEN :at ELSE next_visit_at END"
)
APART = timedelta(seconds=0.1)
LATE = timedelta(minutes=1)  # how long a channel waits for the process whose account knows it
BEFORE_TELEGRAM = datetime(2013, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel's row, as capture needs it."""

    id: int
    tenant_id: UUID | None
    username: str | None
    title: str
    access_hash: dict[str, int]  # by account
    linked_id: int | None
    read_comments: bool
    status: str
    priority: int
    cursor_id: int
    newest_id: int
    requested_from: int | None
    history_from: datetime | None
    last_post_at: datetime | None
    last_parsed_at: datetime | None
    last_success_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    failures: int
    next_visit_at: datetime | None
    refreshed: dict[str, datetime]
    hidden: dict[str, int]  # by account: the highest id that a group does not show it
    protected: bool

    @property
    def shown(self) -> str:
        return f"@{self.username}" if self.username else f"{self.title} ({self.id})"


COLUMNS = ", ".join(f"channels.{name}" for name in Channel.__dataclass_fields__)


def channel_of(row: Row[Any]) -> Channel:
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it begins with an underscore
    values["refreshed"] = times_in(values["refreshed"])
    return Channel(**values)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How visits went lately, over all channels."""

    active: int
    dead: int
    failing: int
    failing_twice: int  # failed in their last two visits or more
    overdue: int  # not read until the time that was promised
    late: int  # of those: nearly twice that time has passed, so that health tells it before it is twice
    worst: list[tuple[str, str]]  # channel and error
    longest: list[tuple[str, datetime, str | None]]  # overdue: channel, since when, error
    given_up: list[tuple[str, str]] = field(default_factory=list)  # the last of them: channel and error


@dataclass(frozen=True, slots=True)
class Standing:
    """How completely a channel is known, for gauges and pages."""

    id: int
    shown: str
    status: str
    captured: int
    requested: int  # ids that were asked for
    known: int  # of those
    proven_up_to: int  # every requested id up to this one is known
    last_post_at: datetime | None
    last_success_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Totals:
    """How completely all channels are known, together."""

    captured: int
    unknown: int  # ids that were asked for
    coverage: float  # percent, of the least known channel
    proven_up_to: int  # of the channel that is furthest behind
    last_post_at: datetime | None
    last_success_at: datetime | None  # of the channel that waits longest


@dataclass(frozen=True, slots=True)
class Quiet:
    """When a channel last posted, and its time zone."""

    id: int
    shown: str
    timezone: str
    last_post_at: datetime
    last_success_at: datetime | None
    last_error_at: datetime | None


async def _with_errors(connection: AsyncConnection, statement: TextClause, limit: int) -> list[tuple[str, str]]:
    rows = await connection.execute(statement, {"limit": limit})
    return [(row.name, row.last_error or "unknown") for row in rows]


def in_order(changes: str, wanted: str) -> str:
    """A change of many channels that locks their rows in the order of ids: else two processes could deadlock."""
    return (
        f"WITH picked AS MATERIALIZED (SELECT id FROM channels WHERE {wanted} ORDER BY id FOR NO KEY UPDATE)"
        f" UPDATE channels SET {changes} FROM picked WHERE channels.id = picked.id"
    )


class Channels(Store):
    """The channels of the system: no tenant's filter here, capture works for all."""

    async def get(self, channel_id: int) -> Channel | None:
        row = await self._row(f"SELECT {COLUMNS} FROM channels WHERE id = :id", {"id": channel_id})
        return None if row is None else channel_of(row)

    async def by_username(self, username: str) -> Channel | None:
        statement = f"SELECT {COLUMNS} FROM channels WHERE lower(username) = :name"
        row = await self._row(statement, {"name": username.lower()})
        return None if row is None else channel_of(row)

    async def all(self) -> list[Channel]:
        statement = f"SELECT {COLUMNS} FROM channels WHERE {SHOWN} ORDER BY priority DESC, title"
        return [channel_of(row) for row in await self._rows(statement)]

    @after_deadlock
    async def plan(self, now: datetime, *, every: bool = True) -> int:
        """Every active channel that waits for a tick becomes due; the number of those that are due now.

        Without `every` a channel that its rhythm gave a time waits for that, and not for the tick.
        """
        waiting = "(next_visit_at IS NULL OR next_visit_at = planned_at)" if every else "next_visit_at IS NULL"
        async with self._database.begin() as connection:
            changed = in_order("next_visit_at = :now", f"status = 'active' AND {CAN_BE_READ} AND {waiting}")
            await connection.execute(text(changed), {"now": now})
            due = text("SELECT count(*) FROM channels WHERE status IN ('active', 'dead') AND next_visit_at <= :now")
            return int((await connection.execute(due, {"now": now})).scalar_one())

    @after_deadlock
    async def visit_by(self, now: datetime, at: datetime, channel_id: int) -> None:
        """Visit this channel then, if not sooner."""
        statement = f"UPDATE channels SET next_visit_at = {BY_THEN} WHERE id = :id AND status IN ('active', 'dead')"
        await self._run(statement, {"now": now, "at": at, "id": channel_id})

    @after_deadlock
    async def make_due(self, now: datetime, channel_id: int | None = None) -> bool:
        """Visit this channel (a dead one too), or all that are active, at once."""
        statement = in_order("next_visit_at = :now", THIS_OR_ALL)
        return bool(await self._run(statement, {"now": now, "id": channel_id}))

    @after_deadlock
    async def look_again(
        self,
        now: datetime,
        channel_id: int | None = None,
        *,
        account: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Something may have been missed: read what is recent again, at once or then. Edits and deletions are in it.

        With `account` only what that one reads: others have missed nothing. Each a little later than the one before,
        what posts most first: else all channels of one account would be read before the first of the next, and while
        one account is asked as often as it may be, the others would wait.
        """
        by_then = BY_THEN.replace(":at", "CAST(:at AS timestamptz) + coalesce(place, 0) * CAST(:apart AS interval)")
        changes = f"next_visit_at = {by_then}, refreshed = refreshed - CAST(:windows AS text[])"
        wanted = f"{THIS_OR_ALL} AND (CAST(:account AS text) IS NULL OR jsonb_exists(access_hash, :account))"
        statement = (
            "WITH places AS MATERIALIZED (SELECT id AS placed, row_number() OVER (ORDER BY priority DESC,"
            f" appetite DESC NULLS LAST, id) - 1 AS place FROM channels WHERE {wanted}),"
            f" picked AS MATERIALIZED (SELECT id FROM channels WHERE {wanted} ORDER BY id FOR NO KEY UPDATE)"
            f" UPDATE channels SET {changes} FROM picked LEFT JOIN places ON placed = picked.id"
            " WHERE channels.id = picked.id"
        )
        windows = [*covered_by(RECENT), CHANGES]
        values = {"now": now, "at": at or now, "id": channel_id, "account": account, "windows": windows}
        await self._run(statement, {**values, "apart": APART})

    @after_deadlock
    async def lease(
        self, owner: str, *, limit: int, now: datetime, ttl: timedelta, reach: Reach | None = None
    ) -> list[Channel]:
        """Take channels that are due, free, and in our reach: the important first, then those that wait longest.

        Of those that wait equally long, as all of an account do after an outage, first what posts most.
        """
        condition, able = readable(reach, late="channels.next_visit_at < :late")
        # MATERIALIZED: a planner that ran the inner query twice would lease more than the limit.
        statement = (
            "WITH due AS MATERIALIZED (SELECT id FROM channels WHERE status IN ('active', 'dead')"
            f" AND next_visit_at <= :now AND (leased_until IS NULL OR leased_until < :now) AND {condition}"
            " ORDER BY priority DESC, next_visit_at, appetite DESC NULLS LAST LIMIT :limit FOR UPDATE SKIP LOCKED)"
            " UPDATE channels SET leased_by = :owner, leased_until = :until FROM due WHERE channels.id = due.id"
            f" RETURNING {COLUMNS}"
        )
        values = {"owner": owner, "until": now + ttl, "now": now, "limit": limit, **able}
        if reach is not None:
            values["late"] = now - LATE
        return [channel_of(row) for row in await self._rows(statement, values)]

    @after_deadlock
    async def renew(self, channel_id: int, owner: str, *, now: datetime, ttl: timedelta) -> bool:
        """False when the lease was lost: another process may be reading the channel by now."""
        statement = "UPDATE channels SET leased_until = :until WHERE id = :id AND leased_by = :owner"
        return bool(await self._run(statement, {"id": channel_id, "owner": owner, "until": now + ttl}))

    @after_deadlock
    async def hand_back_all(self, owner: str) -> None:
        """What an earlier run of ours held and could not give back, because the database was away."""
        statement = "UPDATE channels SET leased_by = NULL, leased_until = NULL WHERE leased_by = :owner"
        await self._run(statement, {"owner": owner})

    async def hand_back(self, channel_id: int, owner: str, *, next_visit_at: datetime | None) -> None:
        """Give a lease back without a verdict: we are stopping, or an account must wait."""
        await self._finish(channel_id, owner, "next_visit_at = :next", {"next": next_visit_at})

    async def succeed(
        self,
        channel_id: int,
        owner: str,
        *,
        now: datetime,
        began: datetime,
        parsed: bool,
        refreshed: Collection[str] = (),
        next_visit_at: datetime | None = None,
        planned: Planned | None = None,
        promised_at: datetime | None = None,
    ) -> None:
        """last_parsed_at moves only when something was parsed (SPEC 2.3). What is planned is overridden by the rest."""
        changes = (
            "status = CASE WHEN status = 'dead' THEN 'active' ELSE status END, failures = 0, last_error = NULL,"
            " last_success_at = :now, last_parsed_at = CASE WHEN :parsed THEN :now ELSE last_parsed_at END,"
            # Who asked for a visit after this one began wants another.
            " next_visit_at = CASE WHEN next_visit_at > :began THEN next_visit_at ELSE :next END,"
            " refreshed = CASE WHEN next_visit_at > :began THEN refreshed"
            " ELSE refreshed || CAST(:refreshed AS jsonb) END, planned_at = :planned, plan_price = :price,"
            " appetite = coalesce(:appetite, appetite), rhythm = coalesce(CAST(:rhythm AS jsonb), rhythm),"
            " rhythm_since = coalesce(:since, rhythm_since), promised_at = coalesce(:promised, promised_at)"
        )
        marks = to_json({name: now.isoformat() for name in refreshed})
        values = {"next": next_visit_at, "now": now, "began": began, "parsed": parsed, "refreshed": marks}
        values["promised"] = promised_at
        await self._finish(channel_id, owner, changes, values | planned_values(planned))

    async def fail(
        self, channel_id: int, owner: str, *, now: datetime, error: str, dead: bool, next_visit_at: datetime | None
    ) -> None:
        changes = (
            "next_visit_at = :next, failures = failures + 1, last_error = :error, last_error_at = :now,"
            " status = CASE WHEN :dead AND status = 'active' THEN 'dead' ELSE status END"
        )
        values = {"next": next_visit_at, "now": now, "error": error[:LONGEST_ERROR], "dead": dead}
        await self._finish(channel_id, owner, changes, values)

    @after_deadlock
    async def _finish(self, channel_id: int, owner: str, changes: str, values: Mapping[str, object]) -> None:
        statement = (
            f"UPDATE channels SET leased_by = NULL, leased_until = NULL, {changes}"
            " WHERE id = :id AND leased_by = :owner"
        )
        await self._run(statement, {"id": channel_id, "owner": owner, **values})

    async def outcome(self, now: datetime, *, shown: int) -> Outcome:
        """By indexes: what is overdue or fails is few rows of many, unless everything is wrong."""
        promised = f"{CAN_BE_READ} AND status = 'active' AND promised_at"  # of an export alone nothing is promised
        overdue = text(
            "SELECT count(*) AS overdue, count(*) FILTER (WHERE :now > promised_at"
            " + (promised_at - coalesce(last_success_at, created_at)) * 0.75) AS late"
            f" FROM channels WHERE {promised} < :now"
        )
        failing = text(
            "SELECT count(*) AS failing, count(*) FILTER (WHERE failures > 1) AS twice FROM channels"
            " WHERE failures > 0 AND status = 'active'"
        )
        longest = text(
            "SELECT coalesce('@' || username, title), promised_at, last_error FROM channels"
            f" WHERE {promised} < :now ORDER BY promised_at LIMIT :limit"
        )
        worst = text(
            "SELECT coalesce('@' || username, title) AS name, last_error FROM channels"
            " WHERE status <> 'removed' AND failures > 0 ORDER BY failures DESC, id LIMIT :limit"
        )
        given_up = text(
            "SELECT coalesce('@' || username, title) AS name, last_error FROM channels WHERE status = 'dead'"
            " ORDER BY last_error_at DESC NULLS LAST, id LIMIT :limit"
        )
        counts = await self.counts()
        async with self._database.connect() as connection:
            due = (await connection.execute(overdue, {"now": now})).one()
            bad = (await connection.execute(failing)).one()
            named = await _with_errors(connection, worst, shown)
            gone = await _with_errors(connection, given_up, shown) if counts.get("dead") else []
            oldest = await connection.execute(longest, {"now": now, "limit": shown})
            return Outcome(
                active=counts.get("active", 0),
                dead=counts.get("dead", 0),
                failing=bad.failing,
                failing_twice=bad.twice,
                overdue=due.overdue,
                late=due.late,
                worst=named,
                given_up=gone,
                longest=[(row[0], row[1], row[2]) for row in oldest],
            )

    async def newest_posts(self) -> list[Quiet]:
        """Every active channel that has ever posted."""
        statement = (
            "SELECT id, coalesce('@' || username, title), timezone, last_post_at, last_success_at, last_error_at"
            f" FROM channels WHERE status = 'active' AND {CAN_BE_READ} AND last_post_at IS NOT NULL ORDER BY id"
        )
        return [Quiet(*row) for row in await self._rows(statement)]

    async def standings(self, *, largest: int | None = None) -> list[Standing]:
        """All channels that are read, or those with the most posts; PostgreSQL counts the ranges."""
        chosen = "ORDER BY captured DESC, id LIMIT :largest" if largest is not None else "ORDER BY id"
        statement = (
            "SELECT id, coalesce('@' || username, title), status, captured, asked.stop - asked.start, coalesce((SELECT"
            " sum(upper(r) - lower(r)) FROM unnest(coverage * int8multirange(int8range(asked.start, asked.stop))) AS r"
            "), 0)::bigint, coalesce((SELECT upper(r) - 1 FROM unnest(coverage) AS r WHERE r @> asked.start LIMIT 1),"
            f" asked.start - 1), last_post_at, last_success_at, last_error FROM (SELECT * FROM channels WHERE {KEPT}"
            f" AND {CAN_BE_READ} {chosen}) AS channels, {ASKED}"
        )
        rows = await self._rows(statement, {} if largest is None else {"largest": largest})
        return [Standing(*row) for row in rows]

    async def totals(self) -> Totals:
        """What `standings` says of every channel, combined by PostgreSQL. Ranges are counted only where some lack."""
        statement = text(
            "SELECT coalesce(sum(captured), 0)::bigint, coalesce(sum(unknown), 0)::bigint,"
            " coalesce(min(100.0 * (width - unknown) / nullif(width, 0)), 100)::float8,"
            " coalesce(min(CASE WHEN unknown = 0 THEN start + width - 1 ELSE coalesce((SELECT upper(r) - 1"
            " FROM unnest(coverage) AS r WHERE r @> start LIMIT 1), start - 1) END), 0),"
            " max(last_post_at), min(last_success_at)"
            " FROM (SELECT captured, coverage, last_post_at, last_success_at, asked.start AS start,"
            " asked.stop - asked.start AS width, CASE WHEN coverage @> int8range(asked.start, asked.stop) THEN 0"
            " ELSE asked.stop - asked.start - coalesce((SELECT sum(upper(r) - lower(r)) FROM"
            " unnest(coverage * int8multirange(int8range(asked.start, asked.stop))) AS r), 0)::bigint END AS unknown"
            f" FROM channels, {ASKED} WHERE {KEPT} AND {CAN_BE_READ}) AS each"
        )
        async with self._database.connect() as connection:
            return Totals(*(await connection.execute(statement)).one())

    async def counts(self) -> dict[str, int]:
        """How many channels there are of each status."""
        statement = f"SELECT status, count(*) FROM channels WHERE {SHOWN} GROUP BY status"
        return {row[0]: row[1] for row in await self._rows(statement)}

    async def last_successes(self, channel_ids: Collection[int]) -> dict[int, datetime]:
        """When each of these was last visited with success, if ever."""
        statement = "SELECT id, last_success_at FROM channels WHERE id = ANY(:ids) AND last_success_at IS NOT NULL"
        return {row[0]: row[1] for row in await self._rows(statement, {"ids": list(channel_ids)})}

    async def ids_after(self, channel_id: int, *, limit: int) -> list[int]:
        """The next channels by id, for work that goes round by turns."""
        statement = text(f"SELECT id FROM channels WHERE {KEPT} AND id > :after ORDER BY id LIMIT :limit")
        return [row[0] for row in await self._rows(statement, {"after": channel_id, "limit": limit})]

    async def with_holes(
        self, limit: int, *, without: Collection[int] = (), reach: Reach | None = None
    ) -> list[Channel]:
        """Channels whose history was asked for, or of whose requested ids some below the cursor are unknown."""
        condition, able = readable(reach)
        statement = (
            f"SELECT {COLUMNS} FROM channels WHERE status = 'active' AND NOT id = ANY(:without) AND {condition}"
            f" AND {CAN_BE_READ}"
            " AND requested_from IS NOT NULL AND (history_from IS NOT NULL"
            " OR (requested_from <= cursor_id AND NOT coverage @> int8range(requested_from, cursor_id + 1)"
            # What cannot be parsed is no work until it is time to try it again.
            " AND NOT coverage + coalesce((SELECT range_agg(int8range(message_id, message_id, '[]')) FROM"
            " unreadable_messages u WHERE u.channel_id = channels.id AND u.next_at > now()), '{}')"
            " @> int8range(requested_from, cursor_id + 1)))"
            " ORDER BY priority DESC, id LIMIT :limit"
        )
        rows = await self._rows(statement, {"limit": limit, "without": list(without), **able})
        return [channel_of(row) for row in rows]

    async def ledger(self, channel_id: int) -> LedgerState:
        statement = text(
            "SELECT newest_id, coalesce(requested_from, newest_id + 1) AS requested_from, coverage::text AS coverage,"
            " captured, hidden_up_to FROM channels WHERE id = :id"
        )
        async with self._database.connect() as connection:
            row = (await connection.execute(statement, {"id": channel_id})).one()
        known = Coverage.parse(row.coverage), row.captured, row.hidden_up_to
        return LedgerState(row.newest_id, row.requested_from, *known)

    async def last_id_before(self, channel_id: int, moment: datetime, *, up_to: int) -> int:
        """The newest stored post older than `moment`, of the ids up to one; 0 when there is none."""
        statement = (
            "SELECT max(message_id) FROM posts WHERE channel_id = :id AND posted_at < :moment AND message_id <= :up_to"
        )
        values = {"id": channel_id, "moment": moment, "up_to": up_to}
        return int(await self._value(statement, values) or 0)

    async def set_status(self, channel_id: int, status: str, *, next_visit_at: datetime | None = None) -> None:
        statement = (
            "UPDATE channels SET status = :status, failures = 0, last_error = NULL, next_visit_at = :next"
            " WHERE id = :id"
        )
        await self._run(statement, {"id": channel_id, "status": status, "next": next_visit_at})

    @after_deadlock
    async def rename(self, channel_id: int, title: str, username: str | None, *, protected: bool = False) -> None:
        """As Telegram says now; a channel that had this name here before loses it."""
        both = text(
            "SELECT id FROM channels WHERE id = :id OR lower(username) = lower(:name) ORDER BY id FOR NO KEY UPDATE"
        )
        others = text("UPDATE channels SET username = NULL WHERE lower(username) = lower(:name) AND id <> :id")
        statement = text("UPDATE channels SET title = :title, username = :name, protected = :protected WHERE id = :id")
        values = {"id": channel_id, "title": title, "name": username, "protected": protected}
        async with self._database.begin() as connection:
            await connection.execute(both, {"id": channel_id, "name": username})
            await connection.execute(others, {"id": channel_id, "name": username})
            await connection.execute(statement, values)

    async def ask_history(self, channel_id: int, since: datetime | None) -> None:
        """Ask for the history from this moment on (None: all of it). The next reader asks Telegram."""
        statement = "UPDATE channels SET history_from = least(history_from, :since) WHERE id = :id"
        await self._run(statement, {"id": channel_id, "since": since or BEFORE_TELEGRAM})

    async def begin(self, channel_id: int, message_id: int) -> None:
        """The first visit: ask for the history from this id on; the cursor starts right below it."""
        statement = f"UPDATE channels SET {ASK_FROM}, cursor_id = greatest(cursor_id, :first - 1) WHERE id = :id"
        await self._run(statement, {"id": channel_id, "first": message_id})

    async def request_from(self, channel_id: int, message_id: int, *, answers: datetime) -> None:
        """Ask for the history from this id on, which is what `answers` asked for. Who asked for more since stays."""
        statement = f"UPDATE channels SET {ASK_FROM}, history_from = nullif(history_from, :answers) WHERE id = :id"
        await self._run(statement, {"id": channel_id, "first": message_id, "answers": answers})
