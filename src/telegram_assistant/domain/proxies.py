"""Proxies as people write them: a URL, or a link that Telegram's apps share. What is shown of one holds no secret."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

DIRECT = "direct"  # said instead of a proxy: none, even where PROXY_URL names one
KEY_BYTES = 16
SECURE, FAKE_TLS = 0xDD, 0xEE  # the first byte of a secret that is longer than its key
_LINKS = {"tg", "https", "http"}  # tg://proxy?…, https://t.me/proxy?…
_LINK_HOSTS = {"t.me", "telegram.me", "telegram.dog", "www.t.me"}
_PORTS = {"socks5": 1080, "http": 8080}
_HOW = "write socks5://user:password@host:port, http://host:port, or a link like https://t.me/proxy?server=…"

Kind = Literal["socks5", "http", "mtproxy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Where it is, and what opens it."""

    kind: Kind
    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    key: bytes = field(default=b"", repr=False)  # of an MTProxy
    padded: bool = False  # its secret begins with dd or ee
    domain: str = ""  # the site that a proxy with fake TLS pretends to be

    @property
    def carries_web(self) -> bool:
        """An MTProxy carries Telegram and nothing else."""
        return self.kind != "mtproxy"

    @property
    def shown(self) -> str:
        """For pages and logs: without user, password and secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.kind}://{host}:{self.port}"

    @property
    def url(self) -> str:
        """With its password, for a library that wants a text."""
        return self.shown if self.user is None else self.shown.replace("://", f"://{_quoted(self)}@", 1)


def parse_proxy(text: str) -> Proxy:
    """Raises ValueError with what to write instead; the message never repeats what was given, it may be a secret."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise ValueError(f"this is no address of a proxy: {_HOW}") from None
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    link = host if scheme == "tg" else parts.path.strip("/") if host in _LINK_HOSTS else ""
    if scheme in _LINKS and link in {"proxy", "socks"}:
        return _shared(link, parts.query)
    if scheme in {"socks5", "socks5h", "http"} and host:
        kind: Kind = "http" if scheme == "http" else "socks5"
        user = unquote(parts.username) if parts.username else None
        password = unquote(parts.password or "") if user is not None else None
        return Proxy(kind=kind, host=host, port=port or _PORTS[kind], user=user, password=password)
    if scheme == "https":
        raise ValueError("a proxy over TLS (https://) is not supported: use http:// or socks5://")
    if scheme.startswith("socks4"):
        raise ValueError("SOCKS4 is not supported: use socks5://")
    raise ValueError(f"this is no address of a proxy: {_HOW}")


def parse_choice(text: str) -> Proxy | None:
    """A proxy, or None for the word `direct`."""
    return None if text.strip().lower() == DIRECT else parse_proxy(text)


def _shared(link: str, query: str) -> Proxy:
    given = {name: values[0] for name, values in parse_qs(query).items()}
    host, port = given.get("server", "").rstrip("."), given.get("port", "")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("this link has no server and port: copy it whole, from server= to its end")
    if link == "socks":
        user = given.get("user")
        return Proxy(
            kind="socks5", host=host, port=int(port), user=user, password=given.get("pass", "") if user else None
        )
    secret = _secret(given.get("secret", ""))
    first, rest = secret[0], secret[1:]
    if len(secret) == KEY_BYTES:
        return Proxy(kind="mtproxy", host=host, port=int(port), key=secret)
    if first == SECURE and len(rest) == KEY_BYTES:
        return Proxy(kind="mtproxy", host=host, port=int(port), key=rest, padded=True)
    if first == FAKE_TLS and len(rest) > KEY_BYTES:
        try:
            domain = rest[KEY_BYTES:].decode("ascii")
        except UnicodeDecodeError:
            raise ValueError("the secret of this MTProxy names no site: copy the link again") from None
        return Proxy(kind="mtproxy", host=host, port=int(port), key=rest[:KEY_BYTES], padded=True, domain=domain)
    raise ValueError("the secret of this MTProxy is neither 16 bytes nor begins with dd or ee: copy the link again")


def _secret(text: str) -> bytes:
    """Hexadecimal, or base64 of either alphabet, with or without its padding."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        plain = text.replace("-", "+").replace("_", "/").replace(" ", "+").rstrip("=")
        try:
            found = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except binascii.Error:
            found = b""
    if not found:
        raise ValueError("this link has no secret that could be read: copy it whole, with secret= and what follows")
    return found


def _quoted(proxy: Proxy) -> str:
    return f"{quote(proxy.user or '', safe='')}:{quote(proxy.password or '', safe='')}"
