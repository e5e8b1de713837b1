"""Bring a database to the newest schema. Safe to call from many processes at once: one works, the others wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.errors import Fatal
from telegram_assistant.log import get_logger

log = get_logger(__name__)

# Processes of the former version go on meanwhile. A transaction that waits for a table holds up all that come later,
# and may hold what they wait for: so a migration waits shortly, gives up all its locks, and tries again.
LOCK_MS, PAUSE, TRIES = 300, 0.3, 100
IN_USE = frozenset({"55P03", "40P01"})  # no lock in time, deadlock

LOCK = 0x7467_615F_6D69_6772  # an arbitrary number for the advisory lock
# None: there is no such column, so the schema is not of ours or older than the column.
RUNS_FROM = text("SELECT to_jsonb(a) ->> 'runs_from' FROM alembic_version a")


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


async def migrate(engine: AsyncEngine, *, revision: str = "head") -> str:
    """Apply what is missing, in one transaction. The schema that is there then: a newer one where this version runs."""
    for _ in range(TRIES):
        try:
            async with engine.begin() as connection:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
                await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
                return await connection.run_sync(_upgrade, revision)
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) not in IN_USE:
                raise
        await asyncio.sleep(PAUSE)
    raise Fatal(
        "The tables are so busy that the schema cannot be changed: nothing was, try again when less is going on"
    )


def _upgrade(connection: Connection, revision: str) -> str:
    config = alembic_config()
    current = MigrationContext.configure(connection).get_current_revision()
    known = known_revisions()
    if current is not None and current not in known:
        if connection.scalar(RUNS_FROM) not in known:
            raise Fatal(f"The database was made by a newer version (schema {current}): start that version")
        log.warning("schema_of_a_newer_version", schema=current, ours=known[0])
        return current
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    return str(MigrationContext.configure(connection).get_current_revision())


def known_revisions() -> list[str]:
    """Newest first."""
    return [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()]
