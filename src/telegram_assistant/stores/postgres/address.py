"""The address of the database, and TLS towards it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from telegram_assistant.domain.urls import is_loopback
from telegram_assistant.errors import Fatal
from telegram_assistant.tls import distrust, verified_tls

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
