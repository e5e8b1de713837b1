"""Connections that the server closed are not handed out again."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import open_database, raw_transaction

pytestmark = pytest.mark.integration


async def backend(engine: AsyncEngine) -> int:
    async with raw_transaction(engine) as connection:
        return int(await connection.fetchval("SELECT pg_backend_pid()"))


async def test_a_pool_gets_over_a_server_that_closed_its_connections(database: AsyncEngine, database_url: str) -> None:
    async def hold(ready: asyncio.Barrier) -> int:
        async with database.connect() as connection:
            pid = int((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())
            await ready.wait()
        return pid

    ready = asyncio.Barrier(3)
    pooled = set(await asyncio.gather(*(hold(ready) for _ in range(3))))
    other = open_database(database_url)
    try:
        async with other.begin() as connection:
            await connection.execute(
                text("SELECT pg_terminate_backend(pid, 5000) FROM unnest(CAST(:pids AS int[])) AS pid"),
                {"pids": list(pooled)},
            )
    finally:
        await other.dispose()
    again = {await backend(database) for _ in range(4)}
    assert not again & pooled


async def test_a_connection_is_used_again(database: AsyncEngine) -> None:
    assert len({await backend(database) for _ in range(5)}) == 1
