"""Priority and time zone of a channel belong to each tenant that watches it. What is set, all ask for."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import foreign_key, show_to_tenant

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "channel_settings",
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        foreign_key("channel_settings", "tenant_id", "tenants.id"),
        foreign_key("channel_settings", "channel_id", "channels.id"),
        sa.PrimaryKeyConstraint("tenant_id", "channel_id", name=op.f("pk_channel_settings")),
    )
    op.create_index(op.f("ix_channel_settings_channel_id"), "channel_settings", ["channel_id"])
    op.execute(
        "INSERT INTO channel_settings (tenant_id, channel_id, priority, timezone)"
        " SELECT DISTINCT s.tenant_id, c.id, nullif(c.priority, 0), nullif(c.timezone, 'Europe/Moscow')"
        " FROM channels c JOIN subscriptions s ON s.channel_id = c.id"
        " WHERE c.priority <> 0 OR c.timezone <> 'Europe/Moscow'"
    )
    show_to_tenant("channel_settings")
