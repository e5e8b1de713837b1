"""The one migration chain (LESSONS 18)."""

import sqlalchemy as sa
from alembic import op

TENANT = "nullif(current_setting('app.tenant_id', true), '')::uuid"


def id_column() -> "sa.Column[object]":
    return sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False)


def now(name: str) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def moment(name: str, *, required: bool = False) -> "sa.Column[object]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=not required)


def words(name: str, default: str | None = "") -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), server_default=default, nullable=False)


def number(name: str, default: int) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer(), server_default=sa.text(str(default)), nullable=False)


def refers(table: str, column: str, to: str, *, required: bool = True) -> list[sa.schema.SchemaItem]:
    """A column and its foreign key: the row goes with what it refers to."""
    return [sa.Column(column, sa.UUID(), nullable=not required), foreign_key(table, column, f"{to}.id")]


def foreign_key(table: str, column: str, to: str, *, ondelete: str | None = "CASCADE") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [to], name=op.f(f"fk_{table}_{column}"), ondelete=ondelete)


def show_to_tenant(table: str, condition: str = f"tenant_id = {TENANT}", columns: str = "") -> None:
    """Which rows, and which of their columns, the requests of a tenant may read."""
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON {table} TO tga_tenant USING ({condition})")
    op.execute(f"GRANT SELECT{f' ({columns})' if columns else ''} ON {table} TO tga_tenant")
