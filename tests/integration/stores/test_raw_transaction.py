"""A transaction on asyncpg itself is over when it is left, however it is left."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.stores.postgres.database import raw_transaction

pytestmark = pytest.mark.integration

LEFT_OPEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '50 ms'"
)
MOMENTS = 60


async def test_a_cancellation_at_any_moment_leaves_no_transaction_in_the_pool(database: AsyncEngine) -> None:
    """The pool knows nothing of it: whoever got the connection next would work inside it, with its locks held."""
    async with raw_transaction(database) as connection:
        await connection.execute("CREATE TABLE written (id int)")

    async def write() -> None:
        async with raw_transaction(database) as connection:
            await connection.execute("INSERT INTO written VALUES (1)")

    for moment in range(MOMENTS):
        writing = asyncio.ensure_future(write())
        for _ in range(moment):  # in the middle of BEGIN, of the statement, of COMMIT
            await asyncio.sleep(0)
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
    await asyncio.sleep(0.2)
    # Of its own transactions each: within one the activity would be seen only once.
    async with database.execution_options(isolation_level="AUTOCOMMIT").connect() as watching:
        assert await watching.scalar(text(LEFT_OPEN)) == 0
