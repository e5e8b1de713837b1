"""Until when each channel is to be read again: health counts those whose time has passed."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    soon = sa.text("now() + interval '10 minutes'")  # for a channel that was never read
    column = sa.Column("promised_at", sa.DateTime(timezone=True), server_default=soon, nullable=False)
    op.add_column("channels", column)
    # What is known already was planned without a promise: it gets a generous one.
    op.execute("UPDATE channels SET promised_at = greatest(now(), coalesce(next_visit_at, now())) + interval '2 hours'")
    active, failing = sa.text("status = 'active'"), sa.text("failures > 0")
    op.create_index("ix_channels_promised", "channels", ["promised_at"], postgresql_where=active)
    op.create_index("ix_channels_failing", "channels", ["failures"], postgresql_where=failing)
