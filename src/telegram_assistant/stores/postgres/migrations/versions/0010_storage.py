"""How much room each tenant takes, its quota, and files that were given up because they can be fetched again."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import foreign_key, show_to_tenant

revision = "0010"
down_revision = "0009"

STATUS = "ck_post_media_status"


def upgrade() -> None:
    op.create_table(
        "storage_usage",
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("objects", sa.BigInteger(), nullable=False),
        foreign_key("storage_usage", "tenant_id", "tenants.id"),
        sa.PrimaryKeyConstraint("tenant_id", "measured_at", "kind", name=op.f("pk_storage_usage")),
    )
    show_to_tenant("storage_usage")
    op.add_column("tenants", sa.Column("storage_quota_mb", sa.Integer(), nullable=True))
    for column in ("opened_at", "evicted_at"):
        op.add_column("media_objects", sa.Column(column, sa.DateTime(timezone=True), nullable=True))
    op.create_index(op.f("ix_media_objects_created_at"), "media_objects", ["created_at"])
    _statuses("'pending', 'stored', 'skipped', 'failed', 'evicted'")


def _statuses(names: str) -> None:
    op.drop_constraint(op.f(STATUS), "post_media")
    op.create_check_constraint(op.f(STATUS), "post_media", f"status IN ({names})")
