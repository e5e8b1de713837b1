"""Priority and time zone of a channel belong to each tenant that watches it. What is set, all ask for."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

TENANT = "nullif(current_setting('app.tenant_id', true), '')::uuid"


def upgrade() -> None:
    op.create_table(
        "channel_settings",
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_channel_settings_tenant_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["channel_id"], ["channels.id"], name=op.f("fk_channel_settings_channel_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("tenant_id", "channel_id", name=op.f("pk_channel_settings")),
    )
    op.create_index(op.f("ix_channel_settings_channel_id"), "channel_settings", ["channel_id"])
    op.execute(
        "INSERT INTO channel_settings (tenant_id, channel_id, priority, timezone)"
        " SELECT DISTINCT s.tenant_id, c.id, nullif(c.priority, 0), nullif(c.timezone, 'Europe/Moscow')"
        " FROM channels c JOIN subscriptions s ON s.channel_id = c.id"
        " WHERE c.priority <> 0 OR c.timezone <> 'Europe/Moscow'"
    )
    op.execute("ALTER TABLE channel_settings ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON channel_settings TO tga_tenant USING (tenant_id = {TENANT})")
    op.execute("GRANT SELECT ON channel_settings TO tga_tenant")
