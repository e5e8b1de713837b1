"""What the pipeline makes of posts: steps, pictures, pages, and what the models cost."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import TENANT, foreign_key, now, show_to_tenant, words

revision = "0003"
down_revision = "0002"

OF_POST = "EXISTS (SELECT 1 FROM posts p WHERE p.id = post_id)"
POLICIES = {
    "post_steps": OF_POST,
    "post_pages": OF_POST,
    "web_pages": "EXISTS (SELECT 1 FROM post_pages l WHERE l.url = web_pages.url)",
    "picture_results": "EXISTS (SELECT 1 FROM post_media m WHERE m.sha256 = picture_results.sha256)",
    "model_usage": f"tenant_id = {TENANT}",
    "model_results": "false",
}


def upgrade() -> None:
    _steps_and_models()
    _pictures()
    _pages()
    op.add_column("outbox", sa.Column("tenant_id", sa.UUID(), nullable=True))
    for table, condition in POLICIES.items():
        show_to_tenant(table, condition)


def _text(name: str, *, required: bool = True) -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), nullable=not required)


def _steps_and_models() -> None:
    op.create_table(
        "post_steps",
        sa.Column("post_id", sa.UUID(), nullable=False),
        _text("stage"),
        _text("outcome"),
        words("note"),
        _text("content_hash"),
        _text("trace_id"),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        now("at"),
        sa.ForeignKeyConstraint(["post_id"], ["posts.id"], name=op.f("fk_post_steps_post_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("post_id", "stage", name=op.f("pk_post_steps")),
    )
    op.create_table(
        "model_results",
        _text("key"),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        now("created_at"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_model_results")),
    )
    op.create_index(op.f("ix_model_results_created_at"), "model_results", ["created_at"])
    op.create_table(
        "model_usage",
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("day", sa.DateTime(timezone=True), nullable=False),
        _text("ability"),
        _text("provider"),
        _text("model"),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("calls", "tokens_in", "tokens_out")),
        *(sa.Column(name, sa.Float(), nullable=False) for name in ("cost", "latency_ms")),
        foreign_key("model_usage", "tenant_id", "tenants.id"),
        sa.PrimaryKeyConstraint("tenant_id", "day", "ability", "provider", "model", name=op.f("pk_model_usage")),
    )


def _pictures() -> None:
    op.create_table(
        "picture_results",
        _text("sha256"),
        _text("identity"),
        sa.Column("fingerprint", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("bands", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("shared", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        now("created_at"),
        foreign_key("picture_results", "sha256", "media_objects.sha256"),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_picture_results")),
    )
    op.create_index("ix_picture_results_bands", "picture_results", ["bands"], postgresql_using="gin")


def _pages() -> None:
    op.create_table(
        "web_pages",
        _text("url"),
        *(words(name) for name in ("title", "text", "description", "language", "site", "published", "content_hash")),
        *(_text(name, required=False) for name in ("etag", "last_modified", "problem")),
        now("fetched_at"),
        sa.PrimaryKeyConstraint("url", name=op.f("pk_web_pages")),
    )
    op.create_table(
        "post_pages",
        sa.Column("post_id", sa.UUID(), nullable=False),
        _text("link"),
        _text("url"),
        sa.ForeignKeyConstraint(["post_id"], ["posts.id"], name=op.f("fk_post_pages_post_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["url"], ["web_pages.url"], name=op.f("fk_post_pages_url"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("post_id", "link", name=op.f("pk_post_pages")),
    )
    op.create_index(op.f("ix_post_pages_url"), "post_pages", ["url"])
