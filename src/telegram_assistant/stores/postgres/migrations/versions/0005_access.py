"""Who may come in: passwords, API keys, sessions, one-time links, and a log of what was done."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import id_column, moment, now, show_to_tenant

revision = "0005"
down_revision = "0004"

# What a tenant's own requests may read of its rows: everything but what opens a door.
READABLE = {
    "api_keys": "id, tenant_id, user_id, name, prefix, role, created_at, last_used_at, expires_at, revoked_at",
    "sessions": "id, tenant_id, user_id, created_at, expires_at, last_seen_at, user_agent",
    "one_time_links": "id, tenant_id, user_id, purpose, created_at, expires_at, used_at",
    "audit_log": "id, tenant_id, user_id, at, action, target, details, address",
}


def upgrade() -> None:
    op.add_column("users", _text("login", required=False))
    op.add_column("users", _text("password_hash", required=False))
    op.add_column("users", sa.Column("disabled", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.create_unique_constraint(op.f("uq_users_login"), "users", ["login"])
    op.create_check_constraint(op.f("ck_users_login"), "users", "login = lower(login)")
    op.execute("REVOKE SELECT ON users FROM tga_tenant")
    _keys()
    _sessions_and_links()
    _log()
    of_users = "id, tenant_id, name, email, telegram_user_id, role, created_at, login, disabled"
    op.execute(f"GRANT SELECT ({of_users}) ON users TO tga_tenant")  # it has its policy since 0001
    for table, columns in READABLE.items():
        show_to_tenant(table, columns=columns)


def _text(name: str, *, required: bool = True) -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), nullable=not required)


def _owner(table: str) -> list[sa.schema.SchemaItem]:
    """The tenant and the user that a row belongs to, and goes with."""
    return [
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("user_id", sa.UUID(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f(f"fk_{table}_tenant_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f(f"fk_{table}_user_id"), ondelete="CASCADE"),
    ]


def _owner_indexes(table: str) -> None:
    for column in ("tenant_id", "user_id"):
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column])


def _keys() -> None:
    op.create_table(
        "api_keys",
        id_column(),
        *_owner("api_keys"),
        _text("name"),
        _text("prefix"),
        _text("sha256"),
        _text("role"),
        now("created_at"),
        moment("last_used_at"),
        moment("expires_at"),
        moment("revoked_at"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("prefix", name=op.f("uq_api_keys_prefix")),
        sa.CheckConstraint("role IN ('admin', 'member')", name=op.f("ck_api_keys_role")),
    )
    _owner_indexes("api_keys")


def _sessions_and_links() -> None:
    op.create_table(
        "sessions",
        id_column(),
        *_owner("sessions"),
        _text("sha256"),
        _text("csrf"),
        now("created_at"),
        moment("expires_at", required=True),
        now("last_seen_at"),
        sa.Column("user_agent", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("sha256", name=op.f("uq_sessions_sha256")),
    )
    op.create_table(
        "one_time_links",
        id_column(),
        *_owner("one_time_links"),
        _text("sha256"),
        _text("purpose"),
        now("created_at"),
        moment("expires_at", required=True),
        moment("used_at"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_one_time_links")),
        sa.UniqueConstraint("sha256", name=op.f("uq_one_time_links_sha256")),
        sa.CheckConstraint("purpose IN ('invite', 'reset')", name=op.f("ck_one_time_links_purpose")),
    )
    for table in ("sessions", "one_time_links"):
        _owner_indexes(table)
        op.create_index(op.f(f"ix_{table}_expires_at"), table, ["expires_at"])


def _log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("user_id", sa.UUID(), nullable=True),
        now("at"),
        _text("action"),
        sa.Column("target", sa.Text(), server_default="", nullable=False),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("address", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_audit_log_tenant_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_audit_log_user_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index(op.f("ix_audit_log_tenant_id_id"), "audit_log", ["tenant_id", "id"])
    op.create_index(op.f("ix_audit_log_user_id"), "audit_log", ["user_id"])
