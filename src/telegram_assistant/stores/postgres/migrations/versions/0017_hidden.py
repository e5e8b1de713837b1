"""What a group hides from our accounts, and channels whose content is protected."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column(
        "channels",
        sa.Column("hidden", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    )
    op.add_column("channels", sa.Column("hidden_up_to", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.add_column("channels", sa.Column("hidden_asked", sa.BigInteger(), nullable=True))
    op.add_column("channels", sa.Column("protected", sa.Boolean(), server_default=sa.text("false"), nullable=False))
