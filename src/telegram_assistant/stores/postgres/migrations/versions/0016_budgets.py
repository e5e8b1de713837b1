"""Budgets: what was spent, by owner, kind and period; who reads a discussion group's channel is found by an index."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import show_to_tenant

revision = "0016"
down_revision = "0015"

TABLES = ("budget_spending", "budget_calls")


def upgrade() -> None:
    op.create_table(
        "budget_spending",
        sa.Column("period", sa.DateTime(timezone=True), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("period", "owner", "kind", name=op.f("pk_budget_spending")),
    )
    op.create_table(
        "budget_calls",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", "owner", "kind", name=op.f("pk_budget_calls")),
    )
    op.create_index(op.f("ix_budget_calls_owner_kind"), "budget_calls", ["owner", "kind"])
    for table in TABLES:
        show_to_tenant(table, "false")
    op.execute("GRANT SELECT ON upkeep TO tga_tenant")  # as on all tables: its policy shows no row
    linked = sa.text("linked_id IS NOT NULL")
    op.create_index("ix_channels_linked_id", "channels", ["linked_id"], postgresql_where=linked)
