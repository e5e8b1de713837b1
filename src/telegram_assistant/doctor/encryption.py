"""Whether what goes to servers on other machines can be read or changed on the way. Nobody is asked for this."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from telegram_assistant.config import Settings
from telegram_assistant.doctor.finding import Finding, fail, ok, warn
from telegram_assistant.domain.urls import is_loopback
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.address import is_here, parse_address, tls_of
from telegram_assistant.tls import verified_tls

NAME = "encryption"
ADVICE = "see docs/howto/tls.md; where only machines of yours share the network, this may stay"
NO = {"0", "f", "false", "n", "no", "none"}


def look_at_encryption(settings: Settings) -> list[Finding]:
    """A file of authorities that cannot be used fails alone: every connection would fail for it."""
    try:
        verified_tls(settings.tls_ca_file)
        found = [warn(NAME, what, f"{todo}; {ADVICE}") for what, todo in _troubles(settings)]
    except Fatal as exc:
        return [fail(NAME, str(exc), "correct TLS_CA_FILE or the address it stands in")]
    return found or [ok(NAME, "what leaves this machine for servers of yours is encrypted and verified")]


def _troubles(settings: Settings) -> Iterator[tuple[str, str]]:
    yield from _postgres(settings)
    yield from _redis(settings)
    for variable, url in _webs(settings):
        if url and url.lower().startswith("http://") and not _local(url):
            yield f"{variable}: what is sent to {_host(url)} can be read on the way", "use https://"
    neo4j = settings.neo4j_url or ""
    if neo4j and not _local(neo4j):
        if "+ssc://" in neo4j:
            yield f"NEO4J_URL: nobody checks whether {_host(neo4j)} is who it says", "use neo4j+s:// with TLS_CA_FILE"
        elif "+s://" not in neo4j:
            yield f"NEO4J_URL: what is sent to {_host(neo4j)} can be read on the way", "use neo4j+s://"
    mail = settings.smtp_host
    if mail and settings.smtp_security == "none" and not _is_local(mail):
        yield f"SMTP_SECURITY: what is sent to {mail} can be read on the way", "use starttls or tls"


def _webs(settings: Settings) -> Iterator[tuple[str, str | None]]:
    yield "QDRANT_URL", settings.qdrant_url
    yield "MEDIA_S3_ENDPOINT", settings.media_s3_endpoint
    yield "OPENAI_BASE_URL", settings.openai_base_url
    yield "GIGACHAT_BASE_URL", settings.gigachat_base_url
    yield "GIGACHAT_AUTH_URL", settings.gigachat_auth_url
    yield "TELEGRAM_BOT_API_URL", settings.telegram_bot_api_url
    yield "TGA_API_URL", settings.tga_api_url


def _postgres(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.database_url is None:
        return
    address = parse_address(settings.database_url.get_secret_value())
    if is_here(address) or tls_of(address, settings.tls_ca_file):
        return
    options = dict(parse_qsl(urlsplit(address.dsn).query))
    mode = options.get("sslmode", "prefer")
    todo = "say sslmode=verify-full in the address"
    if mode == "require" and "sslrootcert" not in options:
        yield f"DATABASE_URL: nobody checks whether {_host(address.dsn)} is who it says", todo
    elif mode not in {"require", "verify-ca", "verify-full"}:
        yield f"DATABASE_URL: what is sent to {_host(address.dsn)} may be read on the way", todo


def _redis(settings: Settings) -> Iterator[tuple[str, str]]:
    url = settings.redis_url.get_secret_value() if settings.redis_url else ""
    if not url or url.startswith("unix:") or _local(url):
        return
    options = dict(parse_qsl(urlsplit(url).query))
    if not url.lower().startswith("rediss:"):
        yield f"REDIS_URL: what is sent to {_host(url)} can be read on the way", "use rediss://"
    elif any(
        options.get(name, "").lower() in NO for name in ("ssl_cert_reqs", "ssl_check_hostname") if name in options
    ):
        yield f"REDIS_URL: nobody checks whether {_host(url)} is who it says", "take ssl_… out of it, set TLS_CA_FILE"


def _host(url: str) -> str:
    """Never the whole address: there may be a password in it."""
    try:
        return urlsplit(url).hostname or "its server"
    except ValueError:
        return "its server"


def _local(url: str) -> bool:
    return _is_local(_host(url))


def _is_local(host: str) -> bool:
    return host == "localhost" or is_loopback(host)
