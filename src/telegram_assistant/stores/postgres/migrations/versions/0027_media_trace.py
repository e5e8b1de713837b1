"""The trace of the capture that brought a file: what is told when the file is settled goes on with it."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("post_media", sa.Column("trace_id", sa.Text()))
