"""Which process works with which Telegram account, and by which mark a session is known without its key."""

import sqlalchemy as sa
from alembic import op

from telegram_assistant.stores.postgres.migrations import show_to_tenant

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    show_to_tenant("leases", "false")
    op.add_column("telegram_accounts", sa.Column("session_digest", sa.Text(), nullable=True))
