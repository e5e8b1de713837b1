"""Where an account and the public preview of a channel tell different things of one post."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import foreign_key, show_to_tenant

revision = "0023"
down_revision = "0022"

OF_CHANNEL = "EXISTS (SELECT 1 FROM channels c WHERE c.id = channel_id)"


def upgrade() -> None:
    op.add_column("channel_audits", sa.Column("witnessed_at", sa.DateTime(timezone=True)))
    op.create_table(
        "witness_differences",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("message_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("account_text", sa.Text(), nullable=True),
        sa.Column("preview_text", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("agreed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seen", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        foreign_key("witness_differences", "channel_id", "channels.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_witness_differences")),
        sa.UniqueConstraint("channel_id", "message_id", "digest", name=op.f("uq_witness_differences_channel_id")),
    )
    show_to_tenant("witness_differences", OF_CHANNEL)
