"""Alembic's entry: runs on the connection that `migrate.py` hands over, never on an address of its own."""

from alembic import context

from telegram_assistant.stores.postgres.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    compare_server_default=False,
)
with context.begin_transaction():
    context.run_migrations()
