"""Tables of periodic work: every run of a job; digests that people asked for, their issues, and how these were sent."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from telegram_assistant.stores.postgres.tables import metadata


def _time(name: str, *, required: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=not required)


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def _owner(column: str, table: str) -> Column[object]:
    return Column(column, UUID, ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False)


def _text(name: str, default: str = "") -> Column[object]:
    return Column(name, Text, nullable=False, server_default=default)


def _number(name: str, default: int) -> Column[object]:
    return Column(name, Integer, nullable=False, server_default=text(str(default)))


# One row for a job and a time it was due: so nothing is done twice, whoever tries.
job_runs = Table(
    "job_runs",
    metadata,
    Column("job", Text, primary_key=True),
    Column("scheduled_for", DateTime(timezone=True), primary_key=True),
    _text("outcome", "asked"),  # asked | running | done | failed
    _number("attempts", 0),
    _time("started_at"),
    _time("ended_at"),
    _text("runner"),
    _text("note"),  # what was done
    _text("error"),
    CheckConstraint("outcome IN ('asked', 'running', 'done', 'failed')", name="outcome"),
    Index("ix_job_runs_asked", "scheduled_for", postgresql_where=text("outcome = 'asked'")),
)

digests = Table(
    "digests",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    _owner("tenant_id", "tenants"),
    _owner("user_id", "users"),
    Column("name", Text, nullable=False),
    Column("topics", ARRAY(Text), nullable=False, server_default=text("'{}'")),  # none: everything
    Column("channels", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),  # none: all that are seen
    _text("frequency", "daily"),
    _number("weekday", 0),  # of a weekly one: 0 is Monday
    _number("day", 1),  # of a monthly one
    _number("minute", 720),  # of the day, in the zone
    _text("zone", "Europe/Moscow"),
    _text("language", "ru"),
    _number("most", 10),  # stories
    Column("deliveries", ARRAY(Text), nullable=False, server_default=text("'{web}'")),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    _number("feed_version", 1),  # another number is another address of the feed
    _time("next_at"),
    _text("trouble"),  # why it is not made any more
    _now("created_at"),
    CheckConstraint("frequency IN ('daily', 'weekly', 'monthly')", name="frequency"),
    CheckConstraint("language IN ('ru', 'en')", name="language"),
    CheckConstraint("weekday BETWEEN 0 AND 6", name="weekday"),
    CheckConstraint("day BETWEEN 1 AND 31", name="day"),
    CheckConstraint("minute BETWEEN 0 AND 1439", name="minute"),
    Index(None, "tenant_id", "user_id", "created_at"),
    Index(None, "user_id"),
    Index("ix_digests_due", "next_at", postgresql_where=text("enabled")),
)

# One row for a digest and a time it was due: so each comes once, also when it was made late or by two at once.
digest_issues = Table(
    "digest_issues",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    _owner("tenant_id", "tenants"),
    _owner("digest_id", "digests"),
    _time("scheduled_for", required=True),
    _time("since", required=True),
    _time("until", required=True),
    _text("state", "due"),  # due | built
    Column("content", JSONB),  # of domain/digests.py; null until it is built
    _number("attempts", 0),
    _now("try_at"),
    _text("error"),
    _now("created_at"),
    _time("built_at"),
    CheckConstraint("state IN ('due', 'built')", name="state"),
    UniqueConstraint("digest_id", "scheduled_for"),
    Index(None, "tenant_id"),
    Index("ix_digest_issues_waiting", "try_at", postgresql_where=text("state = 'due'")),
)

# Issues that have to be brought to somebody; the page and the feed are read where they are.
digest_deliveries = Table(
    "digest_deliveries",
    metadata,
    Column("issue_id", UUID, ForeignKey("digest_issues.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", Text, primary_key=True),  # email | bot
    _owner("tenant_id", "tenants"),
    _text("state", "waiting"),
    _number("attempts", 0),
    _now("due_at"),
    _time("delivered_at"),
    _text("error"),
    CheckConstraint("state IN ('waiting', 'delivered', 'dead')", name="state"),
    Index(None, "tenant_id"),
    Index("ix_digest_deliveries_waiting", "due_at", postgresql_where=text("state = 'waiting'")),
)
