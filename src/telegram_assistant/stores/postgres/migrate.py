"""Bring a database to the newest schema. Safe to call from many processes at once: one works, the others wait."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.errors import Fatal

LOCK = 0x7467_615F_6D69_6772  # any number that nobody else uses for an advisory lock


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


async def migrate(engine: AsyncEngine, *, revision: str = "head") -> None:
    """Apply what is missing, in one transaction."""
    async with engine.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
        await connection.run_sync(_upgrade, revision)


def _upgrade(connection: Connection, revision: str) -> None:
    config = alembic_config()
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise Fatal(f"The database was made by a newer version (schema {current}): start that version")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


async def rewind(engine: AsyncEngine, *, revision: str) -> None:
    """Back to the schema of an older version. Only for a database without content: tables are dropped."""
    async with engine.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
        await connection.run_sync(_downgrade, revision)


def _downgrade(connection: Connection, revision: str) -> None:
    config = alembic_config()
    config.attributes["connection"] = connection
    command.downgrade(config, revision)


def known_revisions() -> list[str]:
    """Newest first."""
    return [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()]
