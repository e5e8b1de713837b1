"""TCP transports: which of Full, Abridged and Intermediate a client speaks, and packets in and out."""

from __future__ import annotations

import asyncio
from typing import Any

from telethon.errors import InvalidBufferError, InvalidChecksumError
from telethon.network.connection.tcpabridged import AbridgedPacketCodec
from telethon.network.connection.tcpfull import FullPacketCodec
from telethon.network.connection.tcpintermediate import IntermediatePacketCodec

BIGGEST_PACKET = 1 << 24  # anything longer is a transport that we do not speak (obfuscated2, TLS, HTTP)


class Gone(ConnectionError):
    """The client closed the connection, or sent what no transport of ours can read."""


class _Prepended:
    """A stream whose first bytes were already taken to find out the transport."""

    def __init__(self, first: bytes, rest: asyncio.StreamReader) -> None:
        self._first = first
        self._rest = rest

    async def readexactly(self, count: int) -> bytes:
        taken, self._first = self._first[:count], self._first[count:]
        return taken + await self._rest.readexactly(count - len(taken))


class Transport:
    """One client's connection as a stream of packets."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._raw = reader
        self._reader: _Prepended | asyncio.StreamReader = reader
        self._writer = writer
        self._codec: Any = None
        # Both ends, without the client's port: on one machine only the address that it chose tells clients apart.
        ends = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        self.way = tuple(end[0] for end in ends if end)

    async def read(self) -> bytes:
        """The next packet; `Gone` at the end."""
        try:
            if self._codec is None:
                await self._detect()
            packet: bytes = await self._codec.read_packet(self._reader)
        except (OSError, asyncio.IncompleteReadError, InvalidChecksumError, InvalidBufferError) as exc:
            raise Gone(str(exc)) from exc
        if len(packet) < 8:  # what Full's codec gives for a connection closed within a header
            raise Gone("closed within a packet")
        return packet

    def write(self, packet: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._codec.encode_packet(packet))

    def write_half(self, packet: bytes) -> None:
        """Send the first half of a packet and close: a connection cut in mid-answer."""
        if self._writer.is_closing():
            return
        encoded: bytes = self._codec.encode_packet(packet)
        self._writer.write(encoded[: len(encoded) // 2])
        self._writer.close()

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        """Return when the socket is released; a client that went away first is no error."""
        try:
            await self._writer.wait_closed()
        except OSError:
            return

    async def _detect(self) -> None:
        first = await self._raw.readexactly(1)
        if first == b"\xef":
            self._codec = AbridgedPacketCodec(None)
            return
        first += await self._raw.readexactly(3)
        if first == b"\xee\xee\xee\xee":
            self._codec = IntermediatePacketCodec(None)
            return
        if int.from_bytes(first, "little") > BIGGEST_PACKET:
            raise Gone("not Full, Abridged or Intermediate")
        self._codec = FullPacketCodec(None)
        self._reader = _Prepended(first, self._raw)
