"""A tenant pauses channels, and keeps them in groups. A channel that all who watch it have paused is not read."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.add_column("channel_settings", sa.Column("paused_at", sa.DateTime(timezone=True)))
    op.add_column("channel_settings", sa.Column("group_name", sa.Text()))
    op.add_column("channel_requests", sa.Column("group_name", sa.Text()))  # of the list that asked for it
    op.drop_constraint(op.f("ck_channels_status"), "channels")
    known = "status IN ('active', 'dead', 'paused', 'removed', 'linked')"
    op.create_check_constraint(op.f("ck_channels_status"), "channels", known)
