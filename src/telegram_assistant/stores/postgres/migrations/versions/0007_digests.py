"""Runs of periodic jobs; digests, their issues, and how these were sent."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"

TENANT = "nullif(current_setting('app.tenant_id', true), '')::uuid"
SEEN_BY = {
    "job_runs": "false",  # they speak of all tenants
    "digests": f"tenant_id = {TENANT}",
    "digest_issues": f"tenant_id = {TENANT}",
    "digest_deliveries": f"tenant_id = {TENANT}",
}


def upgrade() -> None:
    _runs()
    _digests()
    _issues()
    _deliveries()
    for table, condition in SEEN_BY.items():
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant ON {table} TO tga_tenant USING ({condition})")
        op.execute(f"GRANT SELECT ON {table} TO tga_tenant")


def _time(name: str, *, required: bool = False) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=not required)


def _now(name: str) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def _id() -> "sa.Column[object]":
    return sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False)


def _text(name: str, default: str | None = "") -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), server_default=default, nullable=False)


def _number(name: str, default: int) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer(), server_default=sa.text(str(default)), nullable=False)


def _list(name: str, kind: "sa.types.TypeEngine[Any]", default: str) -> "sa.Column[object]":
    return sa.Column(name, postgresql.ARRAY(kind), server_default=sa.text(f"'{default}'"), nullable=False)


def _refers(table: str, column: str, to: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column(column, sa.UUID(), nullable=False),
        sa.ForeignKeyConstraint([column], [f"{to}.id"], name=op.f(f"fk_{table}_{column}"), ondelete="CASCADE"),
    ]


def _runs() -> None:
    op.create_table(
        "job_runs",
        _text("job", None),
        _time("scheduled_for", required=True),
        _text("outcome", "asked"),
        _number("attempts", 0),
        _time("started_at"),
        _time("ended_at"),
        _text("runner"),
        _text("note"),
        _text("error"),
        sa.CheckConstraint("outcome IN ('asked', 'running', 'done', 'failed')", name=op.f("ck_job_runs_outcome")),
        sa.PrimaryKeyConstraint("job", "scheduled_for", name=op.f("pk_job_runs")),
    )
    asked = sa.text("outcome = 'asked'")
    op.create_index("ix_job_runs_asked", "job_runs", ["scheduled_for"], postgresql_where=asked)


def _digests() -> None:
    op.create_table(
        "digests",
        _id(),
        *_refers("digests", "tenant_id", "tenants"),
        *_refers("digests", "user_id", "users"),
        _text("name", None),
        _list("topics", sa.Text(), "{}"),
        _list("channels", sa.BigInteger(), "{}"),
        _text("frequency", "daily"),
        _number("weekday", 0),
        _number("day", 1),
        _number("minute", 720),
        _text("zone", "Europe/Moscow"),
        _text("language", "ru"),
        _number("most", 10),
        _list("deliveries", sa.Text(), "{web}"),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        _number("feed_version", 1),
        _time("next_at"),
        _text("trouble"),
        _now("created_at"),
        sa.CheckConstraint("frequency IN ('daily', 'weekly', 'monthly')", name=op.f("ck_digests_frequency")),
        sa.CheckConstraint("language IN ('ru', 'en')", name=op.f("ck_digests_language")),
        sa.CheckConstraint("weekday BETWEEN 0 AND 6", name=op.f("ck_digests_weekday")),
        sa.CheckConstraint("day BETWEEN 1 AND 31", name=op.f("ck_digests_day")),
        sa.CheckConstraint("minute BETWEEN 0 AND 1439", name=op.f("ck_digests_minute")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_digests")),
    )
    op.create_index(op.f("ix_digests_tenant_id_user_id_created_at"), "digests", ["tenant_id", "user_id", "created_at"])
    op.create_index(op.f("ix_digests_user_id"), "digests", ["user_id"])
    op.create_index("ix_digests_due", "digests", ["next_at"], postgresql_where=sa.text("enabled"))


def _issues() -> None:
    op.create_table(
        "digest_issues",
        _id(),
        *_refers("digest_issues", "tenant_id", "tenants"),
        *_refers("digest_issues", "digest_id", "digests"),
        _time("scheduled_for", required=True),
        _time("since", required=True),
        _time("until", required=True),
        _text("state", "due"),
        sa.Column("content", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        _number("attempts", 0),
        _now("try_at"),
        _text("error"),
        _now("created_at"),
        _time("built_at"),
        sa.CheckConstraint("state IN ('due', 'built')", name=op.f("ck_digest_issues_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_digest_issues")),
        sa.UniqueConstraint("digest_id", "scheduled_for", name=op.f("uq_digest_issues_digest_id_scheduled_for")),
    )
    op.create_index(op.f("ix_digest_issues_tenant_id"), "digest_issues", ["tenant_id"])
    due = sa.text("state = 'due'")
    op.create_index("ix_digest_issues_waiting", "digest_issues", ["try_at"], postgresql_where=due)


def _deliveries() -> None:
    op.create_table(
        "digest_deliveries",
        *_refers("digest_deliveries", "issue_id", "digest_issues"),
        _text("kind", None),
        *_refers("digest_deliveries", "tenant_id", "tenants"),
        _text("state", "waiting"),
        _number("attempts", 0),
        _now("due_at"),
        _time("delivered_at"),
        _text("error"),
        sa.CheckConstraint("state IN ('waiting', 'delivered', 'dead')", name=op.f("ck_digest_deliveries_state")),
        sa.PrimaryKeyConstraint("issue_id", "kind", name=op.f("pk_digest_deliveries")),
    )
    op.create_index(op.f("ix_digest_deliveries_tenant_id"), "digest_deliveries", ["tenant_id"])
    waiting = sa.text("state = 'waiting'")
    op.create_index("ix_digest_deliveries_waiting", "digest_deliveries", ["due_at"], postgresql_where=waiting)
