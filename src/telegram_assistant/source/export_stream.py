"""JSON of any size, a little at a time: `result.json` may have gigabytes, and only some messages are in memory.

Many messages are cut off the buffer and decoded at once. A cut is right if what is before it is valid JSON, so that
it may be guessed. Where no guess is right, values are taken one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, TypeVar

import msgspec

from telegram_assistant.source.export_files import BadExport

PIECE = 512 * 1024
LONGEST_VALUE = 64 << 20  # a message has some kilobytes, the list of all contacts some megabytes

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)  # a lone " opens a text that goes on
_SCALAR = re.compile(rb'(?:"[^"\\]*(?:\\.[^"\\]*)*"|[-+.0-9A-Za-z]+(?=[\s,\]}]))', re.DOTALL)
_SPACE = re.compile(rb"[\s]*")
_BETWEEN = re.compile(rb"\}\s*,\s*\{\s*\Z")
# Telegram Desktop writes control characters as \x1F, which JSON does not know.
_ODD_ESCAPE = re.compile(rb"(\\\\)|\\x([0-9A-Fa-f]{2})")

T = TypeVar("T")


class Stream:
    """Walks through a document. `done`: bytes that were read so far."""

    def __init__(self, file: IO[bytes], shown: str) -> None:
        self._file = file
        self._shown = shown
        self._buffer = b""
        self._ended = False
        self._slowly = 0  # bytes for which no cut is guessed
        self.done = 0
        if not self._more() or self.peek() != b"{":
            raise self.bad("it is no JSON of Telegram Desktop")

    def bad(self, why: str) -> BadExport:
        return BadExport(f"{self._shown}: {why}")

    def peek(self) -> bytes:
        """The next byte that is no space."""
        while True:
            start = _SPACE.match(self._buffer).end()  # type: ignore[union-attr]  # it matches always
            if start:
                self._drop(start)
            if self._buffer:
                return self._buffer[:1]
            if not self._more():
                raise self._cut_short()

    def take(self, wanted: bytes) -> None:
        if self.peek() != wanted:
            raise self.bad(f"it is damaged: {wanted.decode()} was expected near byte {self.done - len(self._buffer):,}")
        self._drop(1)

    def members(self) -> Iterator[str]:
        """The keys of an object, whose values the caller takes before the next."""
        self.take(b"{")
        while self.peek() != b"}":
            key = self.value(str)
            self.take(b":")
            yield key
            if self.peek() != b"}":
                self.take(b",")
        self.take(b"}")

    def items(self) -> Iterator[None]:
        """Once for each item of an array, which the caller takes before the next."""
        self.take(b"[")
        while self.peek() != b"]":
            yield
            if self.peek() != b"]":
                self.take(b",")
        self.take(b"]")

    def value(self, kind: type[T]) -> T:
        raw = self._raw()
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError as exc:
            raise self.bad(f"it is no export that we know ({exc})") from exc
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise self.bad(f"it is damaged near byte {self.done - len(self._buffer):,} ({exc})") from exc

    def many(self, kind: type[T]) -> Iterator[list[T | None]]:
        """The items of an array, some at a time; None for one that is not of this kind."""
        self.take(b"[")
        decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # known when it runs
        while self.peek() != b"]":
            found = self._guessed(decoder)
            if found is None:
                found = [self._one(kind)]
            yield found
            if self.peek() != b"]":
                self.take(b",")
        self.take(b"]")

    def finish(self) -> None:
        """Nothing may follow."""
        while self._more():
            pass
        if self._buffer.strip():
            raise self.bad("it is damaged: something follows after its end")

    def _guessed(self, decoder: msgspec.json.Decoder[list[T]]) -> list[T | None] | None:
        if self._slowly > 0:
            return None
        while len(self._buffer) < PIECE and self._more():
            pass
        at = self._buffer.rfind(b'"id"')
        before = _BETWEEN.search(self._buffer, max(0, at - 200), at) if at > 0 else None
        if before is not None:
            try:
                found: list[T | None] = [*_decoded(decoder, b"[%b]" % self._buffer[: before.start() + 1])]
            except msgspec.ValidationError:
                before = None  # one of them is odd
            except (msgspec.DecodeError, UnicodeDecodeError):
                before = None  # the array ends before, or a message holds such a thing
        if before is None:
            self._slowly = len(self._buffer)
            return None
        self._drop(before.start() + 1)
        return found

    def _one(self, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode(self._raw(), type=kind)
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise self.bad(f"it is damaged near byte {self.done - len(self._buffer):,} ({exc})") from exc

    def _raw(self) -> bytes:
        """The next value as it stands there."""
        self.peek()
        while (end := _end_of(self._buffer)) is None:
            if len(self._buffer) > LONGEST_VALUE:
                raise self.bad("a single value in it is longer than any message: it is no export")
            if not self._more(len(self._buffer)):
                raise self._cut_short()
        raw = self._buffer[:end]
        self._drop(end)
        return _mended(raw)

    def _more(self, size: int = 0) -> bool:
        if self._ended:
            return False
        piece = self._file.read(max(PIECE, size))
        self._ended = not piece
        self._buffer += piece if self.done else piece.removeprefix(b"\xef\xbb\xbf")
        self.done += len(piece)
        return bool(piece)

    def _drop(self, count: int) -> None:
        self._slowly -= count
        self._buffer = self._buffer[count:]

    def _cut_short(self) -> BadExport:
        return self.bad("it ends early: copy it again, or export again")


def _end_of(buffer: bytes) -> int | None:
    """Where the first value ends; None: not here."""
    if buffer[:1] not in (b"{", b"["):
        found = _SCALAR.match(buffer)
        return found.end() if found else None
    depth = 0
    for token in _TOKEN.finditer(buffer):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if not depth:
                    return token.end()
            case b'"':
                return None
    return None


def _decoded(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError:
        mended = _mended(raw)
        if mended is raw:
            raise
        return decoder.decode(mended)


def _mended(raw: bytes) -> bytes:
    if b"\\x" not in raw:
        return raw
    return _ODD_ESCAPE.sub(lambda odd: odd[1] or b"\\u00" + odd[2], raw)
