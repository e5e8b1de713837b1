"""TLS towards PostgreSQL where its address is not enough: asyncpg alone trusts only a file in the home."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from telegram_assistant.domain.addresses import is_loopback
from telegram_assistant.stores.postgres.address import Address
from telegram_assistant.tls import distrust, verified_tls

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
