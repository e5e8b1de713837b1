"""N4: what an engine says of itself is never charged to a channel or a post."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import asyncpg
import pytest
import redis.exceptions
from redis._parsers.base import BaseParser
from structlog.testing import capture_logs

from telegram_assistant.stores.outage import is_outage
from telegram_assistant.wiring.runtime import handle_late_error

REDIS = [
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "NOREPLICAS Not enough good replicas to write.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOPERM User default has no permissions to run the 'set' command",
    "NOAUTH Authentication required.",
]
POSTGRES = [
    asyncpg.DiskFullError,
    asyncpg.OutOfMemoryError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.AdminShutdownError,
    asyncpg.DeadlockDetectedError,
    asyncpg.PostgresIOError,
]


@pytest.mark.parametrize("said", REDIS)
def test_n4_a_redis_that_refuses_is_at_fault_itself(said: str) -> None:
    error = BaseParser.parse_error(said)  # type: ignore[no-untyped-call]  # the library has no types here
    assert isinstance(error, redis.exceptions.RedisError)
    assert is_outage(error)


@pytest.mark.parametrize("kind", POSTGRES)
def test_n4_a_postgresql_that_refuses_is_at_fault_itself(kind: type[Exception]) -> None:
    assert is_outage(kind("no"))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("what a post holds"),
        asyncpg.UniqueViolationError("twice"),
        asyncpg.DataError("no such number"),
        redis.exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    ],
)
def test_what_comes_of_the_data_is_not_an_outage(error: Exception) -> None:
    assert not is_outage(error)


def test_an_error_after_a_cancel_is_a_line_and_no_traceback() -> None:
    """asyncpg sets the error of a lost connection on a query that was cancelled before."""
    others: list[dict[str, Any]] = []
    loop = asyncio.new_event_loop()
    with closing(loop), capture_logs() as told, pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "default_exception_handler", others.append)
        handle_late_error(loop, {"exception": asyncpg.InternalClientError("unexpected connection_lost() call")})
        assert (others, [one["event"] for one in told]) == ([], ["lost_after_cancel"])
        ours = {"exception": RuntimeError("a mistake of ours")}
        handle_late_error(loop, ours)
        assert others == [ours]
