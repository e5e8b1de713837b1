"""Whether an engine of ours is away, full or refuses: no fault of a channel, a post or a file, which just wait."""

from __future__ import annotations

import asyncpg
import redis.exceptions
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_AWAY = (
    OSError,  # refused, reset, timed out
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,  # the connection was closed under us
    asyncpg.InternalClientError,  # and asyncpg had not noticed yet
    asyncpg.OperatorInterventionError,  # shutting down, or not yet started
    asyncpg.InsufficientResourcesError,  # its disk is full, its memory, its connections
    asyncpg.PostgresSystemError,  # it cannot read or write its files
    asyncpg.InternalServerError,
    asyncpg.ReadOnlySQLTransactionError,  # a replica, or a primary that became one
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedTableError,  # its schema is of another version than we are
    asyncpg.UndefinedColumnError,
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,  # deadlocks: the transaction was tried again, and again in vain
    PoolTimeoutError,
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.NoPermissionError,
    redis.exceptions.ClusterError,
)
# What Redis says of itself in an error that the client has no class for.
_REFUSALS = ("MISCONF", "NOREPLICAS", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "NOAUTH", "NOPERM", "OOM")


def is_outage(exc: BaseException | None) -> bool:
    """SQLAlchemy wraps what the driver raised, and the driver's adapter wraps it once more."""
    if isinstance(exc, DBAPIError):
        cause = exc.orig.__cause__ if exc.orig is not None else None
        return exc.connection_invalidated or is_outage(cause)
    if isinstance(exc, redis.exceptions.ResponseError) and str(exc).startswith(_REFUSALS):
        return True
    return isinstance(exc, _AWAY)
