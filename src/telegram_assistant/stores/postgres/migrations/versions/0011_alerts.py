"""Alerts beside those of saved searches: watched posts, troubles of channels and storage, and where alerts go."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"

TENANT = "nullif(current_setting('app.tenant_id', true), '')::uuid"
# The address or key is for the sender alone.
READABLE = {
    "watched_posts": None,
    "notices": None,
    "alert_channels": "id, tenant_id, kind, name, hint, topics, enabled, created_at",
    "alert_deliveries": None,
}


def upgrade() -> None:
    _watched()
    _notices()
    _channels()
    _deliveries()
    for table, columns in READABLE.items():
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant ON {table} TO tga_tenant USING (tenant_id = {TENANT})")
        op.execute(f"GRANT SELECT{f' ({columns})' if columns else ''} ON {table} TO tga_tenant")


def _id() -> "sa.Column[object]":
    return sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False)


def _text(name: str, default: str | None = "") -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), server_default=default, nullable=False)


def _time(name: str) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=True)


def _now(name: str) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def _number(name: str, default: int) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer(), server_default=sa.text(str(default)), nullable=False)


def _json(name: str) -> "sa.Column[object]":
    return sa.Column(name, postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False)


def _refers(table: str, column: str, to: str, *, required: bool = True) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column(column, sa.UUID(), nullable=not required),
        sa.ForeignKeyConstraint([column], [f"{to}.id"], name=op.f(f"fk_{table}_{column}"), ondelete="CASCADE"),
    ]


def _watched() -> None:
    op.create_table(
        "watched_posts",
        *_refers("watched_posts", "user_id", "users"),
        sa.Column("post_id", sa.UUID(), nullable=False),
        *_refers("watched_posts", "tenant_id", "tenants"),
        _text("title"),
        _text("url"),
        _number("version", 1),
        sa.Column("deleted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        _now("created_at"),
        sa.PrimaryKeyConstraint("user_id", "post_id", name=op.f("pk_watched_posts")),
    )
    for column in ("post_id", "tenant_id"):
        op.create_index(op.f(f"ix_watched_posts_{column}"), "watched_posts", [column])


def _notices() -> None:
    op.create_table(
        "notices",
        _id(),
        *_refers("notices", "tenant_id", "tenants"),
        *_refers("notices", "user_id", "users", required=False),
        _text("topic", "post"),
        _text("key"),
        _text("state", "told"),
        _json("content"),
        _now("since"),
        _now("opened_at"),
        _time("resolved_at"),
        _time("read_at"),
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
        _id(),
        *_refers("alert_channels", "tenant_id", "tenants"),
        _text("kind", "slack"),
        _text("name"),
        _text("hint"),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("topics", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        _now("created_at"),
        sa.CheckConstraint("kind IN ('slack', 'pagerduty', 'webhook')", name=op.f("ck_alert_channels_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_channels")),
    )
    op.create_index(op.f("ix_alert_channels_tenant_id"), "alert_channels", ["tenant_id"])


def _deliveries() -> None:
    op.create_table(
        "alert_deliveries",
        _id(),
        *_refers("alert_deliveries", "channel_id", "alert_channels"),
        *_refers("alert_deliveries", "tenant_id", "tenants"),
        _text("dedup_key"),
        _text("action", "trigger"),
        _json("content"),
        _text("state", "waiting"),
        _number("attempts", 0),
        _now("due_at"),
        _now("created_at"),
        _time("delivered_at"),
        _text("error"),
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
