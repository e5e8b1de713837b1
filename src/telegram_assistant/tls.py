"""TLS towards servers of ours: always verified, if need be with one more authority."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from telegram_assistant.errors import Fatal

ADVICE = (
    "give the certificate of the authority that signed it as TLS_CA_FILE, or use the name that stands in the"
    " server's certificate"
)


def verified_tls(ca_file: Path | None) -> ssl.SSLContext:
    """The usual authorities and those of the file, for servers whose certificate the others do not know."""
    context = httpx.create_ssl_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as exc:  # ssl.SSLError is one too
            raise Fatal(f"the file of certificate authorities {ca_file} cannot be used: {exc}") from exc
    return context


def authorities(ca_file: Path | None) -> bytes | None:
    """The file's content, for a library with a TLS of its own; checked as above."""
    if ca_file is None:
        return None
    verified_tls(ca_file)
    return ca_file.read_bytes()


def distrust(error: BaseException | None) -> str | None:
    """What a person does about a certificate that is not trusted; None: something else is wrong."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({error.verify_message}): {ADVICE}"
        error = error.__cause__ or error.__context__
    return None
