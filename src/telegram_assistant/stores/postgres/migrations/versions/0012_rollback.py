"""Which version may still run on this schema, written where a version looks that does not know the schema."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    # A later migration that takes something away sets it to the first schema whose code no longer needs that.
    op.add_column("alembic_version", sa.Column("runs_from", sa.Text(), server_default=revision, nullable=False))
