"""Every table, out of one database and into another, by COPY: their versions of PostgreSQL may differ."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from graphlib import TopologicalSorter
from gzip import GzipFile
from typing import IO, Any, TypeAlias, cast

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.postgres.migrate import migrate

Raw: TypeAlias = Any  # a connection of asyncpg: the stubs of its COPY are narrower than what it takes

# Our tables all have row-level security, which a test checks; what others keep in the same schema is not ours to copy.
_COLUMNS = """
SELECT relname::text AS name,
  array_agg(attname::text ORDER BY attnum) FILTER (WHERE attgenerated = '') AS columns,
  ARRAY(SELECT confrelid::regclass::text FROM pg_constraint
    WHERE conrelid = c.oid AND contype = 'f' AND confrelid <> c.oid) AS refers_to
FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relrowsecurity
GROUP BY c.oid, relname ORDER BY relname
"""
_SEQUENCES = """
SELECT table_name || '.' || column_name AS name,
  coalesce(pg_sequence_last_value(pg_get_serial_sequence(quote_ident(table_name), column_name)::regclass), 0) AS last
FROM information_schema.columns WHERE table_schema = current_schema() AND is_identity = 'YES' ORDER BY 1
"""
MADE_BY_MIGRATIONS = {"tenants": SYSTEM_TENANT, "users": SYSTEM_USER}


@asynccontextmanager
async def snapshot(database: AsyncEngine) -> AsyncIterator[Raw]:
    """A transaction that sees all tables as they are at this moment, without what is written meanwhile."""
    async with database.connect() as connection:
        driver = cast("Any", (await connection.get_raw_connection()).driver_connection)
        async with driver.transaction(isolation="repeatable_read", readonly=True):
            yield driver


@asynccontextmanager
async def empty_tables(database: AsyncEngine) -> AsyncIterator[Raw]:
    """A transaction that locks all tables and removes what migrations wrote into them."""
    async with raw_transaction(database) as connection:
        names = list(await columns_of(connection))
        await connection.execute(f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE")
        if not await first_filled(connection):
            for name in reversed(names):
                await connection.execute(f"DELETE FROM {name}")
        yield connection


async def make_tables_anew(database: AsyncEngine, *, schema: str) -> None:
    """As they were in an older version. Only for a database without content: our tables are dropped."""
    async with raw_transaction(database) as connection:
        names = await columns_of(connection)
        await connection.execute(f"DROP TABLE {', '.join(names)}, alembic_version CASCADE")
    await migrate(database, revision=schema)


async def schema_version(connection: Raw) -> str:
    return str(await connection.fetchval("SELECT version_num FROM alembic_version"))


async def columns_of(connection: Raw) -> dict[str, list[str]]:
    """By table, in the order in which they can be filled: what others refer to comes first."""
    found = {row["name"]: row for row in await connection.fetch(_COLUMNS)}
    order = TopologicalSorter({name: row["refers_to"] for name, row in found.items()}).static_order()
    return {name: list(found[name]["columns"]) for name in order}


async def last_numbers(connection: Raw) -> dict[str, int]:
    return {row["name"]: int(row["last"]) for row in await connection.fetch(_SEQUENCES)}


async def go_on_from(connection: Raw, numbers: dict[str, int]) -> None:
    """Numbers that were given out are not given out again."""
    for name, last in numbers.items():
        if last:
            table, _, column = name.partition(".")
            await connection.execute("SELECT setval(pg_get_serial_sequence($1, $2), $3)", table, column, last)


async def copy_out(connection: Raw, table: str, columns: Sequence[str], write: Callable[[bytes], object]) -> int:
    """How many rows."""

    async def take(piece: bytes) -> None:
        write(piece)

    statement = f"SELECT {_listed(columns)} FROM {table}"
    return _rows(await connection.copy_from_query(statement, output=take, format="text"))


async def copy_in(connection: Raw, table: str, columns: Sequence[str], source: IO[bytes] | GzipFile) -> int:
    """How many rows."""
    return _rows(await connection.copy_to_table(table, source=source, columns=list(columns), format="text"))


async def first_filled(connection: Raw) -> str | None:
    """A table that holds more than migrations put there; None: the database is as good as new."""
    for name in await columns_of(connection):
        ours = MADE_BY_MIGRATIONS.get(name)
        condition = f"WHERE id <> '{ours}'" if ours else ""
        if await connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {name} {condition})"):
            return name
    return None


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _rows(status: str) -> int:
    return int(status.rsplit(" ", 1)[-1])
