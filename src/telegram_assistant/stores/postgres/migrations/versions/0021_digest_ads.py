"""Whether a digest tells advertising and jokes, too."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("digests", sa.Column("ads", sa.Boolean(), server_default=sa.text("false"), nullable=False))
