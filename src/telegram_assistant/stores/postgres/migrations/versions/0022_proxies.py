"""The proxy of an account, sealed as its session is: there may be a password in it."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("telegram_accounts", sa.Column("proxy", sa.LargeBinary()))
