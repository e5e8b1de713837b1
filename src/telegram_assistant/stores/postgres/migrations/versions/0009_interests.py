"""Interests: what each user looks for and reads."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import now, refers, show_to_tenant

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "interests",
        *refers("interests", "user_id", "users"),
        sa.Column("topic", sa.Text(), nullable=False),
        *refers("interests", "tenant_id", "tenants"),
        *(sa.Column(name, sa.Float(), server_default=sa.text("0"), nullable=False) for name in ("queries", "views")),
        sa.Column("chosen", sa.Float(), nullable=True),
        *(now(name) for name in ("last_at", "created_at")),
        sa.CheckConstraint("chosen BETWEEN 0 AND 1", name=op.f("ck_interests_chosen")),
        sa.PrimaryKeyConstraint("user_id", "topic", name=op.f("pk_interests")),
    )
    op.create_index(op.f("ix_interests_tenant_id"), "interests", ["tenant_id"])
    show_to_tenant("interests")
