"""Fetching a page of a stranger: one connection per request, redirects followed here, a limit on everything.

It speaks through httpcore, the engine of httpx, and not through an httpx client: that one would keep cookies, follow
redirects, read proxies from the environment and unpack bodies without a limit, each of which must not happen here.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeAlias

import httpcore

from telegram_assistant.crawl.network import READ_SIZE, CheckedNetwork, Resolver, ask_system
from telegram_assistant.domain.urls import NO_HOSTS, Allowance, BadUrl, Url, forbidden, join_url, parse_url
from telegram_assistant.errors import Reject, Retry, Skip

Gate: TypeAlias = Callable[[Url], Awaitable[None]]  # asked before each request, redirects too; raises to refuse

PRODUCT = "TelegramAssistant"  # how robots.txt may call us
PAGES = frozenset({"text/html", "application/xhtml+xml", "text/plain"})
ANY_KIND: frozenset[str] = frozenset()

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_VALUE = 512  # of a header that is kept
SOONEST, LATEST = 1.0, 24 * 3600.0
_LATER = frozenset({408, 421, 425, 429})
_WORDS = {
    401: "it wants a password",
    402: "it wants money",
    403: "it does not let us in",
    404: "there is no such page",
    410: "the page is gone",
    451: "the page is withheld for legal reasons",
}
ACCEPTED = "gzip, deflate"  # what we ask for; a server that sends something else is not read
_GZIP = zlib.MAX_WBITS | 16
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of our time and memory a stranger may take with one page."""

    total_seconds: float = 20.0  # all requests together, without the waits of the gate
    connect_seconds: float = 5.0
    wire_bytes: int = 3 * 2**20  # as sent, headers included
    unpacked_bytes: int = 6 * 2**20
    header_bytes: int = 32 * 2**10
    redirects: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The last answer, after redirects. `body` is filled for 2xx only, and unpacked."""

    url: Url
    status: int
    kind: str = ""  # media type without parameters
    charset: str = ""
    body: bytes = b""
    wire_bytes: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case names


def user_agent(version: str, contact: str) -> str:
    """How we introduce ourselves; the contact is an address where a site's owner can complain."""
    contact = "".join(character for character in contact if " " <= character <= "~" and character not in "()\\")
    return f"{PRODUCT}/{version} (+{contact.strip()})" if contact.strip() else f"{PRODUCT}/{version}"


class Fetcher:
    """Asks servers of strangers. It holds nothing open: the address is checked anew for every request."""

    def __init__(
        self,
        *,
        agent: str,
        limits: Limits | None = None,
        allow: Allowance = NO_HOSTS,
        resolve: Resolver = ask_system,
        network: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._agent = agent
        self._limits = limits or Limits()
        self._allow = allow
        self._resolve = resolve
        self._network = network or httpcore.AnyIOBackend()
        self._tls = tls or httpcore.default_ssl_context()

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        gate: Gate | None = None,
        kinds: frozenset[str] = PAGES,
        cut_at: int | None = None,
    ) -> Fetched:
        """The answer where the redirects end. With `cut_at` a longer body is cut instead of refused.

        Raises Retry, Skip or Reject; an answer with a status other than 2xx is returned without its body.
        """
        seconds = self._limits.total_seconds
        here = self._permitted(url, None)
        loop = asyncio.get_running_loop()
        for _ in range(self._limits.redirects + 1):
            if gate is not None:
                await gate(here)
            began = loop.time()
            try:
                async with asyncio.timeout(seconds):
                    answer = await self._ask(here, headers or {}, kinds, cut_at)
            except TimeoutError as exc:
                raise Retry(f"{here.host} did not deliver within {self._limits.total_seconds:g} s") from exc
            seconds -= loop.time() - began
            if answer.status not in _REDIRECTS or "location" not in answer.headers:
                return answer
            here = self._permitted(answer.headers["location"], here)
        raise Skip(f"more than {self._limits.redirects} redirects")

    def _permitted(self, text: str, base: Url | None) -> Url:
        try:
            url = parse_url(text) if base is None else join_url(base, text)
        except BadUrl as exc:
            raise Reject(str(exc) if base is None else f"a redirect leads astray: {exc}") from exc
        why = forbidden(url, self._allow)
        if why:
            raise Reject(why if base is None else f"a redirect leads astray: {why}")
        return url

    async def _ask(self, url: Url, headers: Mapping[str, str], kinds: frozenset[str], cut_at: int | None) -> Fetched:
        network = CheckedNetwork(
            self._resolve,
            allow=self._allow,
            allowed=self._limits.header_bytes + READ_SIZE,  # until the headers are complete
            beneath=self._network,
        )
        host = url.host.encode("ascii")
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(url.scheme.encode("ascii"), host, url.port), self._tls, network_backend=network
        )
        request = httpcore.Request(
            b"GET",
            httpcore.URL(scheme=url.scheme, host=host, port=url.port, target=url.target),
            headers=[("Host", url.authority), *self._own_headers().items(), *headers.items()],
            # httpcore's own limits on reading are left off: all of it together is under one clock.
            extensions={"timeout": {"connect": self._limits.connect_seconds}},
        )
        try:
            response = await connection.handle_async_request(request)
            return await self._receive(url, response, network, kinds, cut_at)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as exc:
            # httpcore lets errors of TLS after the handshake through; they must not pass for an engine that is away.
            raise _translated(exc, url) from exc
        finally:
            await connection.aclose()
            await network.close()

    async def _receive(
        self,
        url: Url,
        response: httpcore.Response,
        network: CheckedNetwork,
        kinds: frozenset[str],
        cut_at: int | None,
    ) -> Fetched:
        if sum(len(name) + len(value) for name, value in response.headers) > self._limits.header_bytes:
            raise Skip(f"more than {self._limits.header_bytes} bytes of headers came")
        headers = _headers(response.headers)
        kind, charset = _media_type(headers.get("content-type", ""))
        answer = Fetched(url=url, status=response.status, kind=kind, charset=charset, headers=headers)
        if not 200 <= response.status < 300:
            return answer
        if kinds and kind and kind not in kinds:
            raise Skip(f"{kind[:60]} is no page")
        network.allowed = self._limits.wire_bytes
        body = await self._body(response, headers, cut_at)
        return Fetched(
            url=url,
            status=response.status,
            kind=kind,
            charset=charset,
            body=body,
            wire_bytes=network.received,
            headers=headers,
        )

    async def _body(self, response: httpcore.Response, headers: Mapping[str, str], cut_at: int | None) -> bytes:
        declared = headers.get("content-length", "")
        if cut_at is None and declared.isdecimal() and int(declared) > self._limits.wire_bytes:
            raise Skip(f"the page is larger than {self._limits.wire_bytes} bytes")
        unpack = unpacker(headers.get("content-encoding", ""), self._limits.unpacked_bytes)
        body = bytearray()
        async for chunk in response.aiter_stream():
            body += unpack.feed(chunk)
            if cut_at is not None and len(body) >= cut_at:
                return bytes(body[:cut_at])
        unpack.finish()
        return bytes(body)

    def _own_headers(self) -> dict[str, str]:
        return {
            "User-Agent": self._agent,
            "Accept": "text/html, application/xhtml+xml, text/plain;q=0.8, */*;q=0.1",
            "Accept-Encoding": ACCEPTED,
            "Connection": "close",
        }


def kept_value(value: str | None) -> str | None:
    """A header's value that is stored and sent back one day; None if it is too long or not plain."""
    if value and len(value) <= _LONGEST_VALUE and value.isascii() and value.isprintable():
        return value
    return None


def _translated(exc: Exception, url: Url) -> Retry | Skip:
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Skip(f"the certificate of {url.host} is not valid: {cause.verify_message}")
        cause = cause.__cause__ or cause.__context__
    return Retry(f"{url.host} broke the connection: {str(exc) or type(exc).__name__}")


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """By lower-case name; what came twice stands together, as RFC 9110 reads it."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key = _text(name).lower()
        headers[key] = f"{headers[key]}, {_text(value)}" if key in headers else _text(value)
    return headers


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _media_type(value: str) -> tuple[str, str]:
    kind, *parameters = value.partition(",")[0].split(";")
    for parameter in parameters:
        name, _, charset = parameter.partition("=")
        if name.strip().lower() == "charset":
            return kind.strip().lower(), charset.strip(" \t\"'").lower()
    return kind.strip().lower(), ""


def check_status(status: int, headers: Mapping[str, str], now: datetime) -> None:
    """Return for 2xx; raise Retry for what may pass, Skip for what will not."""
    if 200 <= status < 300 and status not in {204, 205, 206}:
        return
    if status in _LATER or status >= 500:
        raise Retry(f"the server answers {status}", after=retry_after(headers, now), failed=True)
    words = _WORDS.get(status)
    raise Skip(f"the server answers {status}: {words}" if words else f"the server answers {status}: nothing to read")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds from a Retry-After header, be it a number or a date; bounded, None if it says nothing."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return min(max(float(value[:9]), SOONEST), LATEST)
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(seconds, SOONEST), LATEST)


class Unpacker(Protocol):
    """Bytes of a body in pieces; raises Skip when they grow beyond the limit or make no sense."""

    def feed(self, data: bytes) -> bytes: ...

    def finish(self) -> None: ...


def unpacker(encoding: str, limit: int) -> Unpacker:
    """For a Content-Encoding header. Packed twice is not read: only an attack does that to a page."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    packed = [name for name in names if name != "identity"]
    if not packed:
        return _Plain(limit)
    if len(packed) > 1:
        raise Skip(f"the page is packed {len(packed)} times over")
    if packed[0] in {"gzip", "x-gzip"}:
        return _Inflated(limit, _GZIP)
    if packed[0] == "deflate":
        return _Inflated(limit, None)
    raise Skip(f"the page is packed with {packed[0][:20]!r}, which was not asked for")


class _Plain:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def feed(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise Skip(f"the page is larger than {self._limit} bytes")
        return data

    def finish(self) -> None:
        """Nothing can be missing."""


class _Inflated:
    def __init__(self, limit: int, window_bits: int | None) -> None:
        self._limit = limit
        self._left = limit
        self._inflate = None if window_bits is None else zlib.decompressobj(window_bits)

    def feed(self, data: bytes) -> bytes:
        if not data:
            return b""
        if self._inflate is None:
            # "deflate" means zlib, but many servers send it without zlib's header.
            self._inflate = zlib.decompressobj(_ZLIB if data[0] & 0x0F == 8 else _RAW)
        if self._inflate.eof:
            return b""  # what follows the end is no part of the page
        try:
            made = self._inflate.decompress(data, self._left + 1)
        except zlib.error as exc:
            raise Skip(f"the page is not packed properly: {exc}") from exc
        self._left -= len(made)
        if self._left < 0:
            raise Skip(f"the page grows beyond {self._limit} bytes when it is unpacked")
        return made

    def finish(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise Retry("the page broke off in the middle")
