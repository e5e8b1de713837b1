"""Which event a post tells of (`story_id`), and what it is compared with others by (`outline`)."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("search_documents", sa.Column("story_id", sa.UUID(), nullable=True))
    op.add_column(
        "search_documents", sa.Column("outline", sa.LargeBinary(), server_default=sa.text("''"), nullable=False)
    )
    op.create_index(op.f("ix_search_documents_story_id"), "search_documents", ["story_id"])
