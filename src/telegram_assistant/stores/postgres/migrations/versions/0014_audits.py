"""Telegram's count of each channel's changes, full audits that can be resumed, and messages that cannot be read."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import foreign_key, show_to_tenant

revision = "0014"
down_revision = "0013"

OF_CHANNEL = "EXISTS (SELECT 1 FROM channels c WHERE c.id = channel_id)"


def upgrade() -> None:
    op.create_table(
        "channel_audits",
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("pts", sa.BigInteger(), nullable=True),
        sa.Column("wanted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("below_id", sa.BigInteger(), nullable=True),
        sa.Column("done", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("total", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("found", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("audited_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "next_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now() + interval '1 hour'"),
            nullable=False,
        ),
        foreign_key("channel_audits", "channel_id", "channels.id"),
        sa.PrimaryKeyConstraint("channel_id", name=op.f("pk_channel_audits")),
    )
    op.create_index(op.f("ix_channel_audits_next_at"), "channel_audits", ["next_at"])
    op.create_index(
        "ix_channel_audits_wanted", "channel_audits", ["next_at"], postgresql_where=sa.text("wanted_at IS NOT NULL")
    )
    op.create_table(
        "unreadable_messages",
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("message_id", sa.BigInteger(), nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        foreign_key("unreadable_messages", "channel_id", "channels.id"),
        sa.PrimaryKeyConstraint("channel_id", "message_id", name=op.f("pk_unreadable_messages")),
    )
    for table in ("channel_audits", "unreadable_messages"):
        show_to_tenant(table, OF_CHANNEL)
