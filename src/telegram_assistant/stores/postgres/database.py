"""One engine per process, and the two ways to use it: as the system, or as a tenant under row-level security."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from random import uniform
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import UUID, uuid4

import asyncpg
import msgspec
from sqlalchemy import Row, TextClause, event, text
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from telegram_assistant.domain.urls import is_loopback
from telegram_assistant.errors import Fatal
from telegram_assistant.log import get_logger
from telegram_assistant.tls import distrust, verified_tls

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

    async def _all(
        self, kind: type[T], statement: Statement, values: Values = None, *, tenant: UUID | None = None
    ) -> list[T]:
        """The rows as values of a kind whose fields have the names of the columns."""
        return [as_value(kind, row) for row in await self._rows(statement, values, tenant=tenant)]

    async def _first(
        self, kind: type[T], statement: Statement, values: Values = None, *, tenant: UUID | None = None
    ) -> T | None:
        return next(iter(await self._all(kind, statement, values, tenant=tenant)), None)

    async def _value(self, statement: Statement, values: Values = None, *, tenant: UUID | None = None) -> Any:
        """The first column of the first row, if there is any."""
        row = await self._row(statement, values, tenant=tenant)
        return None if row is None else row[0]

    async def _run(self, statement: Statement, values: Values = None, *, tenant: UUID | None = None) -> int:
        """How many rows it changed."""
        async with self._database.begin() if tenant is None else as_tenant(self._database, tenant) as connection:
            return (await connection.execute(_as_clause(statement), values)).rowcount


def as_value(kind: type[T], row: Found, **other: Any) -> T:
    """A row and `other` fields. Words become the enums, and arrays the tuples, that the fields have."""
    return msgspec.convert({**row._mapping, **other}, kind)  # noqa: SLF001 - a public name of SQLAlchemy


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


SCHEMES = ("postgres", "postgresql")
DRIVERS = ("", "asyncpg", "psycopg", "psycopg2")
EXAMPLE = "postgresql://user:password@host:5432/name"
HINT = f"it must look like {EXAMPLE}, with / ? # [ in a password percent-encoded (%2F %3F %23 %5B)"

# asyncpg reads these from the address itself.
NATIVE = frozenset(
    {"host", "port", "dbname", "database", "user", "password", "passfile", "service", "servicefile"}
    | {"sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword"}
    | {"ssl_min_protocol_version", "ssl_max_protocol_version", "target_session_attrs", "krbsrvname", "gsslib"}
)
# The server takes these as settings of the connection; asyncpg passes them on.
SERVER_SETTINGS = frozenset(
    {"application_name", "search_path", "options", "statement_timeout", "lock_timeout", "timezone", "datestyle"}
    | {"idle_in_transaction_session_timeout", "work_mem", "jit"}
)
TIMEOUTS = {"connect_timeout": "timeout", "timeout": "timeout", "command_timeout": "command_timeout"}
YES = ("true", "1", "yes", "on")


@dataclass(frozen=True)
class Address:
    """Where PostgreSQL is, and how asyncpg is told to connect."""

    dsn: str
    arguments: dict[str, Any] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    pooled: bool = False  # behind a pooler that hands every transaction another connection

    @property
    def shown(self) -> str:
        """The address without its password, for logs and errors."""
        parts = urlsplit(self.dsn)
        host = parts.netloc.rpartition("@")[2]
        return f"postgresql://{parts.username + '@' if parts.username else ''}{host}{parts.path}"


def parse_address(url: str) -> Address:
    """Translate where asyncpg has the notion; what it has not is named in `dropped`."""
    parts, port = _split(url)
    kept: dict[str, str] = {}
    arguments: dict[str, Any] = {}
    dropped: list[str] = []
    pooled = (parts.hostname or "").endswith(".pooler.supabase.com") and port == 6543
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        lowered = name.lower()
        if lowered in NATIVE or lowered in SERVER_SETTINGS or "." in lowered:
            kept[lowered] = value
        elif lowered in TIMEOUTS:
            arguments[TIMEOUTS[lowered]] = _seconds(name, value)
        elif lowered == "ssl":  # as SQLAlchemy's asyncpg dialect takes it
            kept["sslmode"] = {"true": "require", "false": "disable"}.get(value.lower(), value)
        elif lowered == "schema":  # as Prisma takes it
            kept["search_path"] = value
        elif lowered == "pgbouncer":
            pooled = pooled or value.lower() in YES
        else:
            dropped.append(name)
    if pooled:
        arguments["statement_cache_size"] = 0
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(kept), ""))
    return Address(dsn, arguments, tuple(dropped), pooled)


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        # Without the cause: an unquoted / in a password makes a part of it look like a port, which the cause quotes.
        raise Fatal(f"DATABASE_URL is not an address; {HINT}") from None
    if "@" not in parts.netloc and "@" in parts.path + parts.fragment + parts.query.partition("=")[0]:
        raise Fatal(f"DATABASE_URL is not an address; {HINT}")
    scheme, _, driver = parts.scheme.partition("+")
    if scheme not in SCHEMES or driver not in DRIVERS:
        raise Fatal(f"DATABASE_URL must look like {EXAMPLE}, not {parts.scheme or 'an empty scheme'}://…")
    return parts, port


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError as exc:
        raise Fatal(f"DATABASE_URL: {name}={value} is not a number of seconds") from exc
    return seconds if seconds > 0 else 60.0  # libpq: zero means to wait for ever; a minute is our for ever


_FILES = {"sslrootcert", "sslcert", "sslkey", "sslcrl"}
_VERIFIED = {"verify-full", "verify-ca"}
_UNDECIDED = {None, "prefer", "require"}


def tls_of(address: Address, ca_file: Path | None) -> ssl.SSLContext | None:
    """None: asyncpg does what the address says. With an authority of yours nothing but loopback goes unverified."""
    options = dict(parse_qsl(urlsplit(address.dsn).query))
    mode = options.get("sslmode")
    if _FILES & options.keys():
        return None
    if mode not in _VERIFIED and (ca_file is None or mode not in _UNDECIDED or is_here(address)):
        return None
    context = verified_tls(ca_file)
    context.check_hostname = mode not in {"require", "verify-ca"}  # as libpq understands these two
    return context


def tls_trouble(error: Exception) -> str | None:
    """One line for a connection that failed because of TLS; None: because of something else."""
    if isinstance(error, ConnectionError) and "SSL upgrade" in str(error):
        return "it does not speak TLS (SSL): switch it on there, or say sslmode=disable in the address to go without"
    return distrust(error)


def is_here(address: Address) -> bool:
    """On this machine: by loopback or by a socket file."""
    parts = urlsplit(address.dsn)
    host = parts.hostname or dict(parse_qsl(parts.query)).get("host", "")
    return not host or host == "localhost" or host.startswith("/") or is_loopback(host)
