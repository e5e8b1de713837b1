"""Trends: what rose for a tenant, and in which posts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import moment, refers, show_to_tenant

revision = "0008"
down_revision = "0007"

TABLES = ("trends", "trend_posts")


def upgrade() -> None:
    _trends()
    _posts()
    for table in TABLES:
        show_to_tenant(table)


def _trends() -> None:
    op.create_table(
        "trends",
        sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        *refers("trends", "tenant_id", "tenants"),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("kind", "key")),
        sa.Column("subjects", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("state", sa.Text(), server_default="daily", nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("mentions", sa.Integer(), nullable=False),
        sa.Column("expected", sa.Float(), nullable=False),
        sa.Column("channels", sa.Integer(), nullable=False),
        sa.Column("counts", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("baseline_days", sa.Integer(), nullable=False),
        *(moment(name, required=True) for name in ("window_start", "window_end", "first_at", "last_at", "found_at")),
        sa.CheckConstraint("state IN ('emerging', 'daily')", name=op.f("ck_trends_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trends")),
    )
    op.create_index(op.f("ix_trends_tenant_id_window_end_id"), "trends", ["tenant_id", "window_end", "id"])


def _posts() -> None:
    op.create_table(
        "trend_posts",
        *refers("trend_posts", "trend_id", "trends"),
        *refers("trend_posts", "post_id", "posts"),
        *refers("trend_posts", "tenant_id", "tenants"),
        sa.Column("source_id", sa.UUID(), nullable=True),
        sa.PrimaryKeyConstraint("trend_id", "post_id", name=op.f("pk_trend_posts")),
    )
    for column in ("post_id", "tenant_id"):
        op.create_index(op.f(f"ix_trend_posts_{column}"), "trend_posts", [column])
