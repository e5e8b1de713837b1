"""Runs of periodic jobs; digests, their issues, and how these were sent."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import (
    TENANT,
    id_column,
    moment,
    now,
    number,
    refers,
    show_to_tenant,
    words,
)

revision = "0007"
down_revision = "0006"

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
        show_to_tenant(table, condition)


def _list(name: str, kind: "sa.types.TypeEngine[Any]", default: str) -> "sa.Column[object]":
    return sa.Column(name, postgresql.ARRAY(kind), server_default=sa.text(f"'{default}'"), nullable=False)


def _runs() -> None:
    op.create_table(
        "job_runs",
        words("job", None),
        moment("scheduled_for", required=True),
        words("outcome", "asked"),
        number("attempts", 0),
        moment("started_at"),
        moment("ended_at"),
        words("runner"),
        words("note"),
        words("error"),
        sa.CheckConstraint("outcome IN ('asked', 'running', 'done', 'failed')", name=op.f("ck_job_runs_outcome")),
        sa.PrimaryKeyConstraint("job", "scheduled_for", name=op.f("pk_job_runs")),
    )
    asked = sa.text("outcome = 'asked'")
    op.create_index("ix_job_runs_asked", "job_runs", ["scheduled_for"], postgresql_where=asked)


def _digests() -> None:
    op.create_table(
        "digests",
        id_column(),
        *refers("digests", "tenant_id", "tenants"),
        *refers("digests", "user_id", "users"),
        words("name", None),
        _list("topics", sa.Text(), "{}"),
        _list("channels", sa.BigInteger(), "{}"),
        words("frequency", "daily"),
        number("weekday", 0),
        number("day", 1),
        number("minute", 720),
        words("zone", "Europe/Moscow"),
        words("language", "ru"),
        number("most", 10),
        _list("deliveries", sa.Text(), "{web}"),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        number("feed_version", 1),
        moment("next_at"),
        words("trouble"),
        now("created_at"),
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
        id_column(),
        *refers("digest_issues", "tenant_id", "tenants"),
        *refers("digest_issues", "digest_id", "digests"),
        moment("scheduled_for", required=True),
        moment("since", required=True),
        moment("until", required=True),
        words("state", "due"),
        sa.Column("content", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        number("attempts", 0),
        now("try_at"),
        words("error"),
        now("created_at"),
        moment("built_at"),
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
        *refers("digest_deliveries", "issue_id", "digest_issues"),
        words("kind", None),
        *refers("digest_deliveries", "tenant_id", "tenants"),
        words("state", "waiting"),
        number("attempts", 0),
        now("due_at"),
        moment("delivered_at"),
        words("error"),
        sa.CheckConstraint("state IN ('waiting', 'delivered', 'dead')", name=op.f("ck_digest_deliveries_state")),
        sa.PrimaryKeyConstraint("issue_id", "kind", name=op.f("pk_digest_deliveries")),
    )
    op.create_index(op.f("ix_digest_deliveries_tenant_id"), "digest_deliveries", ["tenant_id"])
    waiting = sa.text("state = 'waiting'")
    op.create_index("ix_digest_deliveries_waiting", "digest_deliveries", ["due_at"], postgresql_where=waiting)
