"""What is looked after in turns, and posts by when they were captured: what had its time is looked at."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "upkeep",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", postgresql.JSONB(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_upkeep")),
    )
    op.execute("ALTER TABLE upkeep ENABLE ROW LEVEL SECURITY")
    op.execute("CREATE POLICY tenant ON upkeep TO tga_tenant USING (false)")
    op.create_index(op.f("ix_posts_captured_at"), "posts", ["captured_at"])
