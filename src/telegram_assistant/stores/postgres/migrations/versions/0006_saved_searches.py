"""Saved searches and what they found; when a document last changed, so that new ones are found at once."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import moment, now, show_to_tenant

revision = "0006"
down_revision = "0005"

# The secret that signs what is sent is for the sender alone.
READABLE = {
    "saved_searches": "id, tenant_id, user_id, name, query, web, webhook_url, muted, created_at, checked_at",
    "search_alerts": (
        "search_id, post_id, tenant_id, story_of, found_at, read_at, state, attempts, due_at, delivered_at, error"
    ),
}


def upgrade() -> None:
    op.add_column("search_documents", now("changed_at"))
    op.create_index(op.f("ix_search_documents_changed_at_post_id"), "search_documents", ["changed_at", "post_id"])
    _searches()
    _alerts()
    for table, columns in READABLE.items():
        show_to_tenant(table, columns=columns)


def _refers(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=op.f(f"fk_{table}_{column}"), ondelete="CASCADE")


def _searches() -> None:
    op.create_table(
        "saved_searches",
        sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("user_id", sa.UUID(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("web", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("webhook_url", sa.Text(), nullable=True),
        sa.Column("webhook_secret", sa.LargeBinary(), nullable=True),
        sa.Column("muted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        now("created_at"),
        now("checked_at"),
        _refers("saved_searches", "tenant_id", "tenants"),
        _refers("saved_searches", "user_id", "users"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_searches")),
    )
    op.create_index(
        op.f("ix_saved_searches_tenant_id_user_id_created_at"), "saved_searches", ["tenant_id", "user_id", "created_at"]
    )
    op.create_index(op.f("ix_saved_searches_user_id"), "saved_searches", ["user_id"])


def _alerts() -> None:
    op.create_table(
        "search_alerts",
        sa.Column("search_id", sa.UUID(), nullable=False),
        sa.Column("post_id", sa.UUID(), nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("story_of", sa.UUID(), nullable=True),
        now("found_at"),
        moment("read_at"),
        sa.Column("state", sa.Text(), server_default="shown", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        now("due_at"),
        moment("delivered_at"),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint("state IN ('shown', 'waiting', 'delivered', 'dead')", name=op.f("ck_search_alerts_state")),
        _refers("search_alerts", "search_id", "saved_searches"),
        _refers("search_alerts", "post_id", "posts"),
        _refers("search_alerts", "tenant_id", "tenants"),
        sa.PrimaryKeyConstraint("search_id", "post_id", name=op.f("pk_search_alerts")),
    )
    op.create_index(op.f("ix_search_alerts_post_id"), "search_alerts", ["post_id"])
    op.create_index(op.f("ix_search_alerts_tenant_id_found_at"), "search_alerts", ["tenant_id", "found_at"])
    op.create_index(
        "ix_search_alerts_waiting", "search_alerts", ["due_at"], postgresql_where=sa.text("state = 'waiting'")
    )
