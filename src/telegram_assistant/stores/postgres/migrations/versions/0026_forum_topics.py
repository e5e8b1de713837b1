"""Topics of groups that are forums. A post belongs to the topic whose id its thread has."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import foreign_key, moment, show_to_tenant, words

revision = "0026"
down_revision = "0025"

OF_CHANNEL = "EXISTS (SELECT 1 FROM channels c WHERE c.id = channel_id)"


def upgrade() -> None:
    op.create_table(
        "forum_topics",
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.BigInteger(), nullable=False),
        words("title", None),
        sa.Column("closed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("hidden", sa.Boolean(), server_default=sa.false(), nullable=False),
        moment("deleted_at"),
        foreign_key("forum_topics", "channel_id", "channels.id"),
        sa.PrimaryKeyConstraint("channel_id", "id", name=op.f("pk_forum_topics")),
    )
    show_to_tenant("forum_topics", OF_CHANNEL)
    op.add_column("channels", sa.Column("topics_at", sa.DateTime(timezone=True)))
