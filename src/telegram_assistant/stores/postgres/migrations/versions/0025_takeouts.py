"""The takeout session of an account: its id while it is open, or until when Telegram lets it wait."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("telegram_accounts", sa.Column("takeout_id", sa.BigInteger()))
    op.add_column("telegram_accounts", sa.Column("takeout_until", sa.DateTime(timezone=True)))
