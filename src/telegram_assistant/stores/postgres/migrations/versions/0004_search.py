"""Full-text search: a document for each post, and how common each word is."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import foreign_key, show_to_tenant

revision = "0004"
down_revision = "0003"

POLICIES = {
    # One look at the channels for a whole statement, not one at the post for each row.
    "search_documents": "channel_id IN (SELECT c.id FROM channels c)",
    "search_terms": "false",
}


def upgrade() -> None:
    _documents()
    op.create_table(
        "search_terms",
        sa.Column("lexeme", sa.Text(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lexeme", name=op.f("pk_search_terms")),
    )
    for table, condition in POLICIES.items():
        show_to_tenant(table, condition)


def _texts(name: str) -> "sa.Column[object]":
    return sa.Column(name, postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False)


def _documents() -> None:
    op.create_table(
        "search_documents",
        sa.Column("post_id", sa.UUID(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("posted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("album_id", sa.UUID(), nullable=True),
        sa.Column("language", sa.Text(), server_default="", nullable=False),
        *(_texts(name) for name in ("tags", "topics", "has", "marks")),
        sa.Column("deleted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("length", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("signature", sa.LargeBinary(), server_default=sa.text("''"), nullable=False),
        sa.Column("words", postgresql.TSVECTOR(), server_default=sa.text("''"), nullable=False),
        sa.Column("forms", postgresql.TSVECTOR(), server_default=sa.text("''"), nullable=False),
        sa.Column("digest", sa.Text(), server_default="", nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("indexed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        foreign_key("search_documents", "channel_id", "channels.id"),
        foreign_key("search_documents", "post_id", "posts.id"),
        sa.PrimaryKeyConstraint("post_id", name=op.f("pk_search_documents")),
    )
    # What is ranked by stays in the row as it is: unpacked for each word of each candidate it would cost the most.
    op.execute("ALTER TABLE search_documents SET (toast_tuple_target = 3000)")
    op.execute("ALTER TABLE search_documents ALTER COLUMN words SET STORAGE MAIN")
    op.create_index(
        "ix_search_documents_words_forms",
        "search_documents",
        ["words", "forms"],
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )
    op.create_index(op.f("ix_search_documents_posted_at_post_id"), "search_documents", ["posted_at", "post_id"])
    op.create_index(op.f("ix_search_documents_channel_id_posted_at"), "search_documents", ["channel_id", "posted_at"])
