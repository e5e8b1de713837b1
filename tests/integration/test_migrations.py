"""One chain of migrations, from zero to the schema that everything here runs on (LESSONS 10, 18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.migrate import alembic_config, migrate

pytestmark = pytest.mark.integration

# Everything that makes a schema: a second run must leave it as it is, down to the object ids.
FINGERPRINT = """
SELECT relname, oid::bigint FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT polname, oid::bigint FROM pg_policy
UNION ALL SELECT version_num, 0 FROM alembic_version
ORDER BY 1, 2
"""


@pytest.fixture
async def empty(empty_database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = open_database(empty_database_url)
    yield engine
    await engine.dispose()


async def rows(engine: AsyncEngine, statement: str) -> list[tuple[Any, ...]]:
    async with engine.connect() as connection:
        return [tuple(row) for row in await connection.execute(text(statement))]


def test_the_chain_has_one_end() -> None:
    script = ScriptDirectory.from_config(alembic_config())
    assert len(script.get_heads()) == 1
    assert len(script.get_bases()) == 1


async def test_a_second_run_changes_nothing(empty: AsyncEngine) -> None:
    await migrate(empty)
    before = await rows(empty, FINGERPRINT)
    await migrate(empty)
    assert await rows(empty, FINGERPRINT) == before


async def test_many_at_once_are_safe(empty_database_url: str) -> None:
    engines = [open_database(empty_database_url) for _ in range(4)]
    try:
        await asyncio.gather(*(migrate(engine) for engine in engines))
        assert await rows(engines[0], "SELECT count(*) FROM alembic_version") == [(1,)]
    finally:
        for engine in engines:
            await engine.dispose()


async def test_a_failed_migration_leaves_nothing(empty: AsyncEngine) -> None:
    async with empty.begin() as connection:
        await connection.execute(text("CREATE TABLE dead_letters (of_somebody_else int)"))
    with pytest.raises(Exception, match="already exists"):
        await migrate(empty)
    tables = await rows(empty, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert tables == [("dead_letters",)]


async def test_a_database_of_a_newer_version_is_left_alone(empty: AsyncEngine) -> None:
    await migrate(empty)
    async with empty.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999', runs_from = '9998'"))
    before = await rows(empty, FINGERPRINT)
    with pytest.raises(Fatal, match=r"newer version .*9999.*: start that version"):
        await migrate(empty)
    assert await rows(empty, FINGERPRINT) == before


async def test_a_newer_schema_that_says_so_is_run_on_and_left_alone(empty: AsyncEngine) -> None:
    """The way back to the former version, without a backup."""
    ours = await migrate(empty)
    assert await rows(empty, "SELECT version_num, runs_from <= version_num FROM alembic_version") == [(ours, True)]
    async with empty.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    before = await rows(empty, FINGERPRINT)
    assert await migrate(empty) == "9999"
    assert await rows(empty, FINGERPRINT) == before


async def test_a_schema_of_somebody_else_is_left_alone(empty: AsyncEngine) -> None:
    async with empty.begin() as connection:
        await connection.execute(text("CREATE TABLE alembic_version AS SELECT 'a1b2c3' AS version_num"))
    with pytest.raises(Fatal, match="a1b2c3"):
        await migrate(empty)


async def test_whoever_uses_a_table_is_waited_for_without_holding_up_the_others(empty: AsyncEngine) -> None:
    """Processes of the former version go on while the schema changes."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    await migrate(empty, revision="0009")
    async with asyncio.timeout(300):
        async with empty.begin() as reader:
            await reader.execute(text("SELECT 1 FROM tenants"))  # holds its lock until the transaction ends
            changing = asyncio.create_task(migrate(empty, revision="0010"))
            for _ in range(30_000):
                if await rows(empty, waits) == [(1,)]:
                    break
                await asyncio.sleep(0.01)
            else:
                pytest.fail("it never waited")
            assert await rows(empty, "SELECT name FROM tenants") == [("system",)], "a newcomer does not queue for ever"
            assert not changing.done()
        assert await changing == "0010"


async def test_tables_that_are_never_free_are_given_up(empty: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telegram_assistant.stores.postgres.migrate.TRIES", 2)
    await migrate(empty, revision="0009")
    async with empty.begin() as reader:
        await reader.execute(text("SELECT 1 FROM tenants"))
        with pytest.raises(Fatal, match="so busy"):
            await migrate(empty, revision="0010")
    assert await rows(empty, "SELECT version_num FROM alembic_version") == [("0009",)]


async def test_every_time_is_aware(database: AsyncEngine) -> None:
    """SPEC 7.2, LESSONS 10."""
    naive = """
        SELECT table_name, column_name, data_type FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type IN ('timestamp without time zone', 'date', 'time without time zone')
    """
    assert await rows(database, naive) == []
    aware = "SELECT count(*) FROM information_schema.columns WHERE data_type = 'timestamp with time zone'"
    assert (await rows(database, aware))[0][0] > 10


async def test_every_table_has_row_level_security(database: AsyncEngine) -> None:
    """G7: a table without a policy would show everything to everybody."""
    found = dict(
        await rows(
            database,
            """
            SELECT relname, relrowsecurity AND EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = c.oid)
            FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
            """,
        )
    )
    del found["alembic_version"]
    assert len(found) > 40
    assert [name for name, secured in found.items() if not secured] == []


async def test_the_system_has_its_tenant_and_user(database: AsyncEngine) -> None:
    """SPEC 2.7."""
    assert await rows(database, "SELECT id::text, name FROM tenants") == [(SYSTEM_TENANT, "system")]
    assert await rows(database, "SELECT id::text, tenant_id::text, role FROM users") == [
        (SYSTEM_USER, SYSTEM_TENANT, "system")
    ]


async def test_every_foreign_key_has_an_index(database: AsyncEngine) -> None:
    """Else deleting a channel or a tenant reads whole tables."""
    bare = """
        SELECT c.conrelid::regclass::text, a.attname
        FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'f' AND c.connamespace = 'public'::regnamespace AND NOT EXISTS (
            SELECT 1 FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1])
    """
    assert await rows(database, bare) == []
