"""Undoing Content-Encoding without being blown up: no output beyond the limit is ever made."""

from __future__ import annotations

import zlib
from typing import Protocol

from telegram_assistant.errors import Retry, Skip

ACCEPTED = "gzip, deflate"  # what we ask for; a server that sends something else is not read

_GZIP = zlib.MAX_WBITS | 16
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


class Unpacker(Protocol):
    """Bytes of a body in pieces; raises Skip when they grow beyond the limit or make no sense."""

    def feed(self, data: bytes) -> bytes: ...

    def finish(self) -> None: ...


def unpacker(encoding: str, limit: int) -> Unpacker:
    """For a Content-Encoding header. Packed twice is not read: nobody does that to a page but to harm."""
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
