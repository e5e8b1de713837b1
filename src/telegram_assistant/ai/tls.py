"""TLS towards a provider: always verified, if need be with one more authority."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from telegram_assistant.errors import Fatal


def verified_tls(ca_file: Path | None) -> ssl.SSLContext:
    """The usual authorities and those of the file, for servers whose certificate the others do not know."""
    context = httpx.create_ssl_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as exc:  # ssl.SSLError is one too
            raise Fatal(f"the file of certificate authorities {ca_file} cannot be used: {exc}") from exc
    return context
