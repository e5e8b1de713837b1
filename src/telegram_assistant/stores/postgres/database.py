"""One engine per process, and the two ways to use it: as the system, or as a tenant under row-level security."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from random import uniform
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast
from uuid import UUID, uuid4

import asyncpg
import msgspec
from sqlalchemy import Row, TextClause, event, text
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from telegram_assistant.errors import Fatal
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.address import Address, parse_address, tls_of, tls_trouble

OLDEST_SERVER = 150000
TENANT_ROLE = "tga_tenant"
CONFLICTS = frozenset({"40P01", "40001"})
TRIES = 5
PAUSE_SECONDS = 0.1

P = ParamSpec("P")
T = TypeVar("T")
Statement: TypeAlias = str | TextClause
Values: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
Found: TypeAlias = "Row[*tuple[Any, ...]]"

log = get_logger(__name__)


def open_database(url: str, *, pool_size: int = 10, ca_file: Path | None = None) -> AsyncEngine:
    """Make the engine; nothing is connected yet."""
    address = parse_address(url)
    if address.dropped:
        log.info("database_url_options_ignored", options=address.dropped, reason="asyncpg has no such option")

    connect = _arguments(address, ca_file)
    if address.pooled:
        # The statement that SQLAlchemy prepares must not meet a namesake on the connection of the next transaction.
        connect |= {"prepared_statement_cache_size": 0, "prepared_statement_name_func": lambda: f"tga_{uuid4().hex}"}
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args=connect,
        pool_size=pool_size,
        json_deserializer=msgspec.json.decode,
        json_serializer=lambda value: msgspec.json.encode(value).decode(),
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


def _refuse_closed(connection: Any, _record: object, _proxy: object) -> None:
    """Instead of SQLAlchemy's ping, which costs three round trips: asyncpg hears at once that its server went away."""
    if connection.driver_connection.is_closed():
        raise InvalidatePoolError


async def check_server(url: str, *, ca_file: Path | None = None) -> None:
    """Connect once and say in one line what is wrong, if anything is."""
    address = parse_address(url)
    try:
        connection = await asyncpg.connect(**{"timeout": 10, **_arguments(address, ca_file)})
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as exc:
        raise Fatal(f"Cannot use DATABASE_URL ({address.shown}): {_reason(exc)}") from exc
    try:
        version = int(await connection.fetchval("SHOW server_version_num"))
        if version < OLDEST_SERVER:
            raise Fatal(
                f"DATABASE_URL ({address.shown}) is PostgreSQL {version // 10000}; version 15 or newer is needed"
            )
    finally:
        await connection.close()


@asynccontextmanager
async def as_tenant(engine: AsyncEngine, tenant_id: UUID) -> AsyncIterator[AsyncConnection]:
    """A transaction that sees only what this tenant may see: PostgreSQL itself filters (G7)."""
    async with engine.begin() as connection:
        await connection.execute(text(f"SET LOCAL ROLE {TENANT_ROLE}"))
        await connection.execute(text("SELECT set_config('app.tenant_id', :id, true)"), {"id": str(tenant_id)})
        yield connection


class Store:
    """Tables of one database. Each of these calls is a transaction: of the system, or of a tenant and what it sees."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    async def _rows(
        self, statement: Statement, values: Values = None, *, tenant: UUID | None = None
    ) -> Sequence[Found]:
        async with self._database.begin() if tenant is None else as_tenant(self._database, tenant) as connection:
            return (await connection.execute(_as_clause(statement), values)).all()

    async def _row(self, statement: Statement, values: Values = None, *, tenant: UUID | None = None) -> Found | None:
        """The first, if there is any."""
        return next(iter(await self._rows(statement, values, tenant=tenant)), None)

    async def _value(self, statement: Statement, values: Values = None, *, tenant: UUID | None = None) -> Any:
        """The first column of the first row, if there is any."""
        row = await self._row(statement, values, tenant=tenant)
        return None if row is None else row[0]

    async def _run(self, statement: Statement, values: Values = None, *, tenant: UUID | None = None) -> int:
        """How many rows it changed."""
        async with self._database.begin() if tenant is None else as_tenant(self._database, tenant) as connection:
            return (await connection.execute(_as_clause(statement), values)).rowcount


def _as_clause(statement: Statement) -> TextClause:
    return text(statement) if isinstance(statement, str) else statement


@asynccontextmanager
async def raw_transaction(engine: AsyncEngine) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A transaction on asyncpg itself, for the hot paths: COPY and arrays instead of a statement per row."""
    async with engine.connect() as connection:
        pooled = await connection.get_raw_connection()
        driver = cast("asyncpg.Connection[asyncpg.Record]", pooled.driver_connection)
        try:
            async with driver.transaction():
                yield driver
        except asyncio.CancelledError:
            # In the middle of BEGIN or COMMIT it is unknown whether there is a transaction. The pool does not look: the
            # next user of the connection would work inside that transaction, with its locks held for ever.
            await connection.invalidate()
            raise


def after_deadlock(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Run a whole transaction again that PostgreSQL ended because of another one. Nothing of it has happened.

    Who takes locks in one order meets no deadlock; a migration that runs beside us takes its own.
    """

    @wraps(work)
    async def tried(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(1, TRIES):
            try:
                return await work(*args, **kwargs)
            except (asyncpg.TransactionRollbackError, DBAPIError) as exc:
                if not is_conflict(exc):
                    raise
                log.info("transaction_again", work=work.__qualname__, attempt=attempt, reason=str(exc).split("\n")[0])
            await asyncio.sleep(uniform(0, PAUSE_SECONDS * attempt))  # noqa: S311 - to part them, no secret
        return await work(*args, **kwargs)

    return tried


def is_conflict(exc: BaseException) -> bool:
    """A deadlock, or a transaction that could not be put in order with others."""
    if isinstance(exc, DBAPIError):
        return getattr(exc.orig, "sqlstate", None) in CONFLICTS
    return isinstance(exc, asyncpg.TransactionRollbackError)


def _arguments(address: Address, ca_file: Path | None) -> dict[str, Any]:
    tls = tls_of(address, ca_file)
    return {"dsn": address.dsn, **address.arguments, **({"ssl": tls} if tls else {})}


def _reason(exc: Exception) -> str:
    if why := tls_trouble(exc):
        return why
    if isinstance(exc, asyncpg.InvalidPasswordError | asyncpg.InvalidAuthorizationSpecificationError):
        return "user or password is wrong; check them in DATABASE_URL"
    if isinstance(exc, asyncpg.InvalidCatalogNameError):
        return f"{exc}; create it with: createdb"
    if isinstance(exc, TimeoutError):
        return "no answer; is the host right and reachable?"
    if isinstance(exc, OSError):
        return (
            f"no PostgreSQL answers there ({exc.strerror or exc}); start it, correct the address, or unset DATABASE_URL"
        )
    return " ".join(str(exc).split()) or type(exc).__name__


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # after an odd backslash it is a NUL, else just these letters


def as_jsonb(value: Any) -> str:
    return _NUL.sub(r"\1", msgspec.json.encode(value).decode())
