"""Whether an engine of ours is away: nobody's fault, soon over, and no reason to blame a channel or a file."""

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
    asyncpg.InsufficientResourcesError,
    PoolTimeoutError,
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
)


def is_outage(exc: BaseException | None) -> bool:
    """SQLAlchemy wraps what the driver raised, and the driver's adapter wraps it once more."""
    if isinstance(exc, DBAPIError):
        cause = exc.orig.__cause__ if exc.orig is not None else None
        return exc.connection_invalidated or is_outage(cause)
    return isinstance(exc, _AWAY)
