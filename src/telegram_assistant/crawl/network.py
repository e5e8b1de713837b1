"""Connections that cannot be led astray: the name is resolved here, every answer is checked, and exactly a checked
address is connected to, while Host, SNI and the certificate keep the name. A second answer of the DNS changes nothing.
Behind a proxy it is the same: the proxy is asked for the checked address. With PROXY_RESOLVES_NAMES it is asked for
the name instead, and the address is not checked.
A POST to an address of a stranger goes this way too: never redirected, its answer read a little.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import anyio.abc
import httpcore
from httpcore._backends.anyio import AnyIOStream  # it has no public name, and a socket of ours no other way in

from telegram_assistant.domain.proxies import Proxy
from telegram_assistant.domain.urls import NO_HOSTS, Allowance, BadUrl, Url, closed, forbidden, is_loopback, parse_url
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.tunnels import open_tunnel

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]  # host and port to addresses

MOST_ADDRESSES = 4  # that are tried, one after another
READ_SIZE = 64 * 1024  # httpcore asks for so much at once
TUNNEL_SECONDS = 15.0


async def ask_system(host: str, port: int) -> Sequence[str]:
    """What the machine's own resolver says."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def leave_to_proxy(host: str, port: int) -> Sequence[str]:
    """The name as it is: the proxy looks it up."""
    del port
    return [host]


class ProxyNetwork(httpcore.AsyncNetworkBackend):
    """All connections through a proxy, but for those to this machine, which were allowed by name."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._direct = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if is_loopback(host):
            return await self._direct.connect_tcp(host, port, timeout, local_address, socket_options)
        try:
            tunnel = await open_tunnel(self._proxy, host, port, seconds=timeout or TUNNEL_SECONDS)
        except ConnectionError as exc:
            raise httpcore.ConnectError(str(exc)) from exc
        return AnyIOStream(await anyio.abc.SocketStream.from_socket(tunnel))


def network_through(proxy: Proxy | None) -> httpcore.AsyncNetworkBackend:
    return httpcore.AnyIOBackend() if proxy is None else ProxyNetwork(proxy)


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """The network as one request sees it: only checked addresses, and no more bytes than `allowed`."""

    def __init__(
        self, resolve: Resolver, *, allow: Allowance, allowed: int, beneath: httpcore.AsyncNetworkBackend
    ) -> None:
        self._resolve = resolve
        self._allow = allow
        self._beneath = beneath
        self._open: list[httpcore.AsyncNetworkStream] = []
        self.allowed = allowed
        self.received = 0

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._checked(host, port)
                stream = await self._connect(addresses, port, local_address, socket_options)
        except TimeoutError as exc:
            raise Retry(f"{host} did not take the connection within {timeout:g} s") from exc
        return _Metered(stream, self)

    def count(self, size: int) -> None:
        self.received += size
        if self.received > self.allowed:
            raise Skip(f"more than {self.allowed} bytes came")

    async def close(self) -> None:
        """Also what httpcore lost sight of, as when a handshake was cancelled."""
        while self._open:
            await self._open.pop().aclose()

    async def _checked(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except socket.gaierror as exc:
            if exc.errno == socket.EAI_AGAIN:
                raise Retry(f"the name {host} cannot be looked up at the moment") from exc
            raise Skip(f"there is no host {host}") from exc
        except (OSError, UnicodeError) as exc:
            raise Retry(f"the name {host} cannot be looked up: {exc}") from exc
        if not addresses:
            raise Skip(f"there is no host {host}")
        open_here = (host, port) in self._allow
        if self._resolve is leave_to_proxy:  # an address in a link was judged with the link
            return addresses
        for address in addresses:
            why = None if open_here and is_loopback(address) else closed(address)
            if why:  # one bad answer spoils the rest: no honest name mixes public and private addresses
                raise Reject(f"{host} leads to {address}, which is {why}")
        return addresses[:MOST_ADDRESSES]

    async def _connect(
        self,
        addresses: Sequence[str],
        port: int,
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        for address in addresses[:-1]:
            try:
                return await self._connect_one(address, port, local_address, socket_options)
            except httpcore.ConnectError:
                continue  # the next may answer, as when only IPv4 works here
        return await self._connect_one(addresses[-1], port, local_address, socket_options)

    async def _connect_one(
        self,
        address: str,
        port: int,
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._beneath.connect_tcp(
            address, port, local_address=local_address, socket_options=socket_options
        )
        self._open.append(stream)
        return stream


class _Metered(httpcore.AsyncNetworkStream):
    """A connection whose bytes are counted: after TLS, but before chunks and packing are undone."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, network: CheckedNetwork) -> None:
        self._stream = stream
        self._network = network

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as above
        data = await self._stream.read(max_bytes, timeout)
        self._network.count(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _Metered(secured, self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


SECONDS = 10.0  # for all of it
MOST_BYTES = 64 * 2**10  # of an answer, headers included
LONGEST_SHOWN = 200
NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    text: str

    @property
    def shown(self) -> str:
        said = " ".join(self.text.split())[:LONGEST_SHOWN]
        return f"{self.status} {said}".strip()


class Poster:
    """Every name is looked up and checked anew for each request, and exactly that address is asked."""

    def __init__(
        self,
        *,
        agent: str,
        allow: Allowance = NO_HOSTS,
        resolve: Resolver = ask_system,
        tls: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self.allow = allow
        self._agent = agent
        self._resolve = resolve
        self._tls = tls or httpcore.default_ssl_context()
        self._seconds = seconds

    def permitted(self, text: str) -> Url:
        """Raises Reject for an address that is never asked: private ones, except where loopback is allowed."""
        try:
            url = parse_url(text)
        except BadUrl as exc:
            raise Reject(str(exc)) from exc
        why = forbidden(url, self.allow)
        if why:
            raise Reject(why)
        return url

    def checked(self, text: str) -> Url:
        """The same for what must not be read on its way."""
        url = self.permitted(text)
        if url.scheme != "https" and (url.host, url.port) not in self.allow:
            raise Reject("the address must begin with https://")
        return url

    async def post(self, url: Url, body: bytes, headers: Mapping[str, str] = NONE, *, read: bool = True) -> Answer:
        """JSON. Raises Retry when nothing comes back. `read` False: of the answer only the status matters."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(url, body, headers, read)
        except TimeoutError as exc:
            raise Retry(f"{url.host} did not answer within {self._seconds:g} s") from exc
        except Skip as exc:
            raise Retry(str(exc)) from exc
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as exc:
            raise Retry(f"{url.host}: {type(exc).__name__} {exc}".strip()) from exc

    async def _post(self, url: Url, body: bytes, more: Mapping[str, str], read: bool) -> Answer:
        network = CheckedNetwork(self._resolve, allow=self.allow, allowed=MOST_BYTES, beneath=httpcore.AnyIOBackend())
        host = url.host.encode("ascii")
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(url.scheme.encode("ascii"), host, url.port), self._tls, network_backend=network
        )
        headers = {
            "Host": url.authority,
            "User-Agent": self._agent,
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **more,
        }
        request = httpcore.Request(
            b"POST",
            httpcore.URL(scheme=url.scheme, host=host, port=url.port, target=url.target),
            headers=list(headers.items()),
            content=body,
            extensions={"timeout": {"connect": self._seconds}},
        )
        try:
            response = await connection.handle_async_request(request)
            content = await response.aread() if read else b""
        finally:
            await connection.aclose()
            await network.close()
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, found, content.decode("utf-8", "replace"))
