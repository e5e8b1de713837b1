"""Telegram through a proxy: SOCKS5, HTTP, or an MTProxy, also one that pretends to be a site with TLS.

Telethon knows MTProxy with its first two kinds of secrets. For fake TLS (secrets that begin with `ee`) a ClientHello of
OpenSSL is sent whose random number is a code made with the secret; the answer carries another, which only one who has
the secret can make. From then on each packet is in a record of TLS. The ClientHello is OpenSSL's own, not a browser's.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from telethon.network.connection.connection import ObfuscatedConnection
from telethon.network.connection.tcpfull import ConnectionTcpFull
from telethon.network.connection.tcpintermediate import IntermediatePacketCodec, RandomizedIntermediatePacketCodec
from telethon.network.connection.tcpmtproxy import TcpMTProxy

from telegram_assistant.domain.proxies import Proxy
from telegram_assistant.tunnels import open_tunnel

HANDSHAKE, CHANGE_CIPHER, DATA = b"\x16", b"\x14", b"\x17"
HEADER = 5  # type, version and length of a record
RANDOM = slice(11, 43)  # where a hello has its random number
CHANGED = CHANGE_CIPHER + b"\x03\x03\x00\x01\x01"
LARGEST_RECORD = 16 * 1024
LARGEST_ANSWER = 64 * 1024


@dataclass(slots=True)
class Route:
    """A proxy in use. Telethon keeps it, and gives it to every connection that it makes."""

    proxy: Proxy
    trouble: str | None = None  # why the last attempt failed: Telethon only counts attempts


def connection_through(proxy: Proxy | None) -> dict[str, Any]:
    """What a client of Telethon must be told."""
    if proxy is None:
        return {}
    return {"connection": MTProxyConnection if proxy.kind == "mtproxy" else TunnelConnection, "proxy": Route(proxy)}


class TunnelConnection(ConnectionTcpFull):  # type: ignore[misc] # telethon ships no types
    """Telethon's own way to a proxy exchanges errors of the library for all who use it, and loses the reason."""

    async def _proxy_connect(self, timeout: float | None = None, local_addr: Any = None) -> socket.socket:  # noqa: ASYNC109 - Telethon's signature
        del local_addr
        try:
            tunnel = await open_tunnel(self._proxy.proxy, self._ip, self._port, seconds=timeout or 10.0)
        except ConnectionError as exc:
            self._proxy.trouble = str(exc)
            raise
        self._proxy.trouble = None
        return tunnel


class MTProxyConnection(TcpMTProxy):  # type: ignore[misc] # telethon ships no types
    """To the proxy instead of Telegram; which data centre is meant is told in the first bytes."""

    def __init__(self, ip: str, port: int, dc_id: int, *, loggers: Any, proxy: Route, local_addr: Any = None) -> None:
        del ip, port, local_addr
        to = proxy.proxy
        ObfuscatedConnection.__init__(self, to.host, to.port, dc_id, loggers=loggers)
        self._route = proxy
        self._reader: Any
        self._writer: Any
        self._secret = to.key
        self.packet_codec = RandomizedIntermediatePacketCodec if to.padded else IntermediatePacketCodec

    @staticmethod
    def address_info(proxy_info: Route) -> tuple[str, int]:
        return proxy_info.proxy.host, proxy_info.proxy.port

    async def _connect(self, timeout: float | None = None, ssl: Any = None) -> None:  # noqa: ASYNC109 - Telethon's signature
        del ssl
        proxy = self._route.proxy
        try:
            async with asyncio.timeout(timeout):
                self._reader, self._writer = await asyncio.open_connection(proxy.host, proxy.port)
                if proxy.domain:
                    await self._pretend(proxy)
        except (OSError, EOFError) as exc:
            said = str(exc) or ("it did not answer in time" if isinstance(exc, TimeoutError) else type(exc).__name__)
            self._route.trouble = f"the proxy {proxy.shown} did not connect us: {said}"
            if self._writer is not None:
                self._writer.close()
            raise ConnectionError(self._route.trouble) from exc
        self._route.trouble = None
        self._codec = self.packet_codec(self)
        self._init_conn()
        await self._writer.drain()

    async def _pretend(self, proxy: Proxy) -> None:
        mark = await _shake_hands(self._reader, self._writer, proxy)
        if not mark:
            raise ConnectionError(
                f"what answers there does not know the secret: it may really be {proxy.domain}, the secret may be old,"
                " or this machine's clock wrong"
            )
        self._reader, self._writer = _Records(self._reader), _RecordWriter(self._writer)


async def _shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: Proxy) -> bool:
    """Whether the other side has the secret."""
    hello = bytearray(client_hello(proxy.domain))
    hello[RANDOM] = bytes(32)
    code = hmac.digest(proxy.key, bytes(hello), sha256)
    now = int.from_bytes(code[28:], "little") ^ int(time.time())
    hello[RANDOM] = code[:28] + now.to_bytes(4, "little")
    writer.write(bytes(hello))
    await writer.drain()
    answer = bytearray()
    for kind in (HANDSHAKE, CHANGE_CIPHER, DATA):
        header = await reader.readexactly(HEADER)
        size = int.from_bytes(header[3:], "big")
        if header[:1] != kind or len(answer) + size > LARGEST_ANSWER:
            return False
        answer += header + await reader.readexactly(size)
    theirs = bytes(answer[RANDOM])
    answer[RANDOM] = bytes(32)
    return hmac.compare_digest(theirs, hmac.digest(proxy.key, bytes(hello[RANDOM]) + bytes(answer), sha256))


def client_hello(domain: str) -> bytes:
    """What OpenSSL would say to the site."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    nothing, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(nothing, said, server_hostname=domain).do_handshake()
    return said.read()


class _Records:
    """Reads what is in the records."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._held = bytearray()

    async def readexactly(self, count: int) -> bytes:
        while len(self._held) < count:
            header = await self._reader.readexactly(HEADER)
            body = await self._reader.readexactly(int.from_bytes(header[3:], "big"))
            if header[:1] == DATA:
                self._held += body
            elif header[:1] != CHANGE_CIPHER:
                raise ConnectionError("the proxy ended its fake TLS")
        data = bytes(self._held[:count])
        del self._held[:count]
        return data


class _RecordWriter:
    """Puts what is written into records."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._begun = False

    def write(self, data: bytes) -> None:
        if not self._begun:
            self._begun = True
            self._writer.write(CHANGED)
        for start in range(0, len(data), LARGEST_RECORD):
            part = data[start : start + LARGEST_RECORD]
            self._writer.write(DATA + b"\x03\x03" + len(part).to_bytes(2, "big") + part)

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        await self._writer.wait_closed()
