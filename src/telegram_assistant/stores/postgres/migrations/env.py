"""Alembic's entry: runs on the connection that `migrate.py` hands over, never on an address of its own."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
