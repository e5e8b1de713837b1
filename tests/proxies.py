"""Real proxies on loopback: SOCKS5, HTTP and MTProxy, each as it is specified, sharing nothing with our own code.

`leads` is what a proxy's own DNS would be: where it connects to when it is asked for a host and port.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import socket
import struct
import time
from base64 import b64decode
from contextlib import suppress
from typing import Any, Self

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Address = tuple[str, int]
INTERMEDIATE, PADDED = b"\xee" * 4, b"\xdd" * 4


class TestProxy:
    """One listening proxy. What it was asked for is in `asked`."""

    __test__ = False
    scheme = ""

    def __init__(self, *, leads: dict[Address, Address] | None = None, login: tuple[str, str] | None = None) -> None:
        self.leads = leads or {}
        self.login = login
        self.asked: list[Address] = []
        self.refused = 0
        self._dialled: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        user = f"{self.login[0]}:{self.login[1]}@" if self.login else ""
        return f"{self.scheme}://{user}127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._dialled:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self.serve(reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def dial(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.asked.append((host, port))
        reader, writer = await asyncio.open_connection(*self.leads.get((host, port), (host, port)))
        self._dialled.append(writer)
        return reader, writer


async def pump(reader: Any, writer: Any) -> None:
    with suppress(OSError, EOFError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


class Socks5Proxy(TestProxy):
    """RFC 1928 with the passwords of RFC 1929."""

    scheme = "socks5"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        version, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        wanted = 2 if self.login else 0
        if version != 5 or wanted not in methods:
            self.refused += 1
            writer.write(b"\x05\xff")
            return
        writer.write(bytes([5, wanted]))
        if self.login and not await self._allowed(reader, writer):
            self.refused += 1
            return
        _, command, _, kind = await reader.readexactly(4)
        if kind == 3:
            (size,) = await reader.readexactly(1)
            host = (await reader.readexactly(size)).decode("ascii")
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, await reader.readexactly(size))
        (port,) = struct.unpack(">H", await reader.readexactly(2))
        assert command == 1
        try:
            there, to = await self.dial(host, port)
        except OSError:
            writer.write(b"\x05\x05\x00\x01" + bytes(6))  # connection refused
            return
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await asyncio.gather(pump(reader, to), pump(there, writer))

    async def _allowed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        said = []
        await reader.readexactly(1)
        for _ in range(2):
            (size,) = await reader.readexactly(1)
            said.append((await reader.readexactly(size)).decode())
        fits = tuple(said) == self.login
        writer.write(b"\x01\x00" if fits else b"\x01\x01")
        return fits


class HttpProxy(TestProxy):
    """CONNECT of RFC 9110, with Basic authentication."""

    scheme = "http"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, target, _ = first.split(" ")
        given = headers.get("proxy-authorization", "").removeprefix("Basic ")
        if self.login and b64decode(given).decode() != ":".join(self.login):
            self.refused += 1
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n")
            return
        assert method == "CONNECT"
        host, _, port = target.rpartition(":")
        try:
            there, to = await self.dial(host.strip("[]"), int(port))
        except OSError:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, to), pump(there, writer))


class MTProxy(TestProxy):
    """obfuscated2 with a secret; with a `domain`, within fake TLS. All data centres are one Telegram here."""

    def __init__(self, telegram: Address, *, key: bytes, padded: bool = False, domain: str = "") -> None:
        super().__init__()
        self._telegram = telegram
        self._key = key
        self._padded = padded or bool(domain)
        self._domain = domain
        self.centres: list[int] = []

    @property
    def secret(self) -> str:
        if self._domain:
            return "ee" + self._key.hex() + self._domain.encode().hex()
        return ("dd" if self._padded else "") + self._key.hex()

    @property
    def url(self) -> str:
        return f"https://t.me/proxy?server=127.0.0.1&port={self.port}&secret={self.secret}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        incoming: Any = reader
        outgoing: Any = writer
        if self._domain:
            if not await self._greeted(reader, writer):
                self.refused += 1
                writer.write(b"\x15\x03\x03\x00\x02\x02\x28")  # what a TLS server says to nonsense
                return
            incoming, outgoing = Unwrapped(reader), Wrapped(writer)
        start = await incoming.readexactly(64)
        decrypt = self._cipher(start[8:40], start[40:56])
        back = start[8:56][::-1]
        encrypt = self._cipher(back[:32], back[32:])
        plain = decrypt.update(start)
        tag, (centre,) = plain[56:60], struct.unpack("<h", plain[60:62])
        if tag != (PADDED if self._padded else INTERMEDIATE):
            self.refused += 1
            await reader.read()  # as the official one: it says nothing, and waits
            return
        self.centres.append(centre)
        there, to = await self.dial(*self._telegram)
        to.write(INTERMEDIATE)
        await asyncio.gather(self._inwards(incoming, decrypt, to), self._outwards(there, encrypt, outgoing))

    def _cipher(self, key: bytes, start: bytes) -> Any:
        made = hashlib.sha256(key + self._key).digest()
        return Cipher(algorithms.AES(made), modes.CTR(start)).encryptor()

    async def _inwards(self, reader: Any, cipher: Any, to: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            while True:
                (size,) = struct.unpack("<I", cipher.update(await reader.readexactly(4)))
                packet = cipher.update(await reader.readexactly(size))
                packet = packet[: size - size % 4] if self._padded else packet
                to.write(struct.pack("<I", len(packet)) + packet)
                await to.drain()
        to.close()

    async def _outwards(self, there: asyncio.StreamReader, cipher: Any, writer: Any) -> None:
        with suppress(OSError, EOFError):
            while True:
                (size,) = struct.unpack("<I", await there.readexactly(4))
                packet = await there.readexactly(size) + (os.urandom(size % 3 + 1) if self._padded else b"")
                writer.write(cipher.update(struct.pack("<I", len(packet)) + packet))
                await writer.drain()
        writer.close()

    async def _greeted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        header = await reader.readexactly(5)
        hello = bytearray(header + await reader.readexactly(int.from_bytes(header[3:], "big")))
        said = bytes(hello[11:43])
        session = bytes(hello[44:76]) if hello[43] == 32 else b""
        hello[11:43] = bytes(32)
        code = hmac.new(self._key, bytes(hello), hashlib.sha256).digest()
        sent = int.from_bytes(bytes(a ^ b for a, b in zip(code[28:], said[28:], strict=True)), "little")
        if code[:28] != said[:28] or abs(sent - time.time()) > 60 or len(hello) < 517:
            return False
        if not session or self._domain.encode() not in hello:
            return False
        body = b"\x03\x03" + bytes(32) + b"\x20" + session + b"\x13\x01\x00\x00\x2e"
        body += b"\x00\x33\x00\x24\x00\x1d\x00\x20" + os.urandom(32) + b"\x00\x2b\x00\x02\x03\x04"
        shake = b"\x02" + len(body).to_bytes(3, "big") + body
        noise = os.urandom(1500)
        answer = b"\x16\x03\x03" + len(shake).to_bytes(2, "big") + shake + b"\x14\x03\x03\x00\x01\x01"
        answer += b"\x17\x03\x03" + len(noise).to_bytes(2, "big") + noise
        mark = hmac.new(self._key, said + answer, hashlib.sha256).digest()
        writer.write(answer[:11] + mark + answer[43:])
        return True


class Unwrapped:
    """Data out of records of TLS."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self._held = reader, b""

    async def readexactly(self, count: int) -> bytes:
        while len(self._held) < count:
            header = await self._reader.readexactly(5)
            body = await self._reader.readexactly(int.from_bytes(header[3:], "big"))
            if header[0] == 0x17:
                self._held += body
        data, self._held = self._held[:count], self._held[count:]
        return data


class Wrapped:
    """Data into records of TLS, in pieces as they come."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), 1400):
            part = data[start : start + 1400]
            self._writer.write(b"\x17\x03\x03" + len(part).to_bytes(2, "big") + part)

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()
