"""What a channel's rhythm is, and when it is to be looked at because of it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("channels", sa.Column("rhythm", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.add_column("channels", sa.Column("rhythm_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("channels", sa.Column("appetite", sa.Float(), nullable=True))
    op.add_column("channels", sa.Column("planned_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("channels", sa.Column("plan_price", sa.Float(), nullable=True))
    # Out of the row: a tick reads all rows, and every lease writes one anew, without ever needing the rhythm.
    op.execute("ALTER TABLE channels ALTER COLUMN rhythm SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE channels SET (toast_tuple_target = 1024)")
