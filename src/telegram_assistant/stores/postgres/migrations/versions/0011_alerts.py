"""Alerts beside those of saved searches: watched posts, troubles of channels and storage, and where alerts go."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import (
    id_column,
    moment,
    now,
    number,
    refers,
    show_to_tenant,
    words,
)

revision = "0011"
down_revision = "0010"

# The address or key is for the sender alone.
READABLE = {
    "watched_posts": "",
    "notices": "",
    "alert_channels": "id, tenant_id, kind, name, hint, topics, enabled, created_at",
    "alert_deliveries": "",
}


def upgrade() -> None:
    _watched()
    _notices()
    _channels()
    _deliveries()
    for table, columns in READABLE.items():
        show_to_tenant(table, columns=columns)


def _json(name: str) -> "sa.Column[object]":
    return sa.Column(name, postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False)


def _watched() -> None:
    op.create_table(
        "watched_posts",
        *refers("watched_posts", "user_id", "users"),
        sa.Column("post_id", sa.UUID(), nullable=False),
        *refers("watched_posts", "tenant_id", "tenants"),
        words("title"),
        words("url"),
        number("version", 1),
        sa.Column("deleted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        now("created_at"),
        sa.PrimaryKeyConstraint("user_id", "post_id", name=op.f("pk_watched_posts")),
    )
    for column in ("post_id", "tenant_id"):
        op.create_index(op.f(f"ix_watched_posts_{column}"), "watched_posts", [column])


def _notices() -> None:
    op.create_table(
        "notices",
        id_column(),
        *refers("notices", "tenant_id", "tenants"),
        *refers("notices", "user_id", "users", required=False),
        words("topic", "post"),
        words("key"),
        words("state", "told"),
        _json("content"),
        now("since"),
        now("opened_at"),
        moment("resolved_at"),
        moment("read_at"),
        sa.CheckConstraint("topic IN ('post', 'channel', 'storage')", name=op.f("ck_notices_topic")),
        sa.CheckConstraint("state IN ('waiting', 'open', 'resolved', 'told')", name=op.f("ck_notices_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
    live = sa.text("state IN ('waiting', 'open')")
    op.create_index("uq_notices_live", "notices", ["tenant_id", "key"], unique=True, postgresql_where=live)
    op.create_index(op.f("ix_notices_tenant_id_opened_at_id"), "notices", ["tenant_id", "opened_at", "id"])
    op.create_index(op.f("ix_notices_user_id"), "notices", ["user_id"])


def _channels() -> None:
    op.create_table(
        "alert_channels",
        id_column(),
        *refers("alert_channels", "tenant_id", "tenants"),
        words("kind", "slack"),
        words("name"),
        words("hint"),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("topics", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        now("created_at"),
        sa.CheckConstraint("kind IN ('slack', 'pagerduty', 'webhook')", name=op.f("ck_alert_channels_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_channels")),
    )
    op.create_index(op.f("ix_alert_channels_tenant_id"), "alert_channels", ["tenant_id"])


def _deliveries() -> None:
    op.create_table(
        "alert_deliveries",
        id_column(),
        *refers("alert_deliveries", "channel_id", "alert_channels"),
        *refers("alert_deliveries", "tenant_id", "tenants"),
        words("dedup_key"),
        words("action", "trigger"),
        _json("content"),
        words("state", "waiting"),
        number("attempts", 0),
        now("due_at"),
        now("created_at"),
        moment("delivered_at"),
        words("error"),
        sa.CheckConstraint("action IN ('trigger', 'resolve')", name=op.f("ck_alert_deliveries_action")),
        sa.CheckConstraint("state IN ('waiting', 'delivered', 'dead')", name=op.f("ck_alert_deliveries_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_deliveries")),
        sa.UniqueConstraint(
            "channel_id", "dedup_key", "action", name=op.f("uq_alert_deliveries_channel_id_dedup_key_action")
        ),
    )
    op.create_index(op.f("ix_alert_deliveries_tenant_id_created_at"), "alert_deliveries", ["tenant_id", "created_at"])
    waiting = sa.text("state = 'waiting'")
    op.create_index("ix_alert_deliveries_waiting", "alert_deliveries", ["due_at"], postgresql_where=waiting)
