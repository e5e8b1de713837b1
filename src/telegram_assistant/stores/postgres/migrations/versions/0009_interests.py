"""Interests: what each user looks for and reads."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

TENANT = "nullif(current_setting('app.tenant_id', true), '')::uuid"


def upgrade() -> None:
    op.create_table(
        "interests",
        *_refers("user_id", "users"),
        sa.Column("topic", sa.Text(), nullable=False),
        *_refers("tenant_id", "tenants"),
        *(sa.Column(name, sa.Float(), server_default=sa.text("0"), nullable=False) for name in ("queries", "views")),
        sa.Column("chosen", sa.Float(), nullable=True),
        *(_now(name) for name in ("last_at", "created_at")),
        sa.CheckConstraint("chosen BETWEEN 0 AND 1", name=op.f("ck_interests_chosen")),
        sa.PrimaryKeyConstraint("user_id", "topic", name=op.f("pk_interests")),
    )
    op.create_index(op.f("ix_interests_tenant_id"), "interests", ["tenant_id"])
    op.execute("ALTER TABLE interests ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON interests TO tga_tenant USING (tenant_id = {TENANT})")
    op.execute("GRANT SELECT ON interests TO tga_tenant")


def _now(name: str) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def _refers(column: str, to: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column(column, sa.UUID(), nullable=False),
        sa.ForeignKeyConstraint([column], [f"{to}.id"], name=op.f(f"fk_interests_{column}"), ondelete="CASCADE"),
    ]
