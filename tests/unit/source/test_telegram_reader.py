"""The quick reader reads what Telethon's own reads, and fails where that fails."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telethon.errors import TypeNotFoundError
from telethon.extensions import BinaryReader
from telethon.tl import TLObject, types

from telegram_assistant.source.telegram_client import QuickReader, QuickRequest
from telegram_simulator.generate import demo_world
from telegram_simulator.index import Index
from telegram_simulator.render import Renderer

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def messages() -> list[bytes]:
    """Every message of the demo world, as bytes: text, entities, media, polls, albums, forwards, service messages."""
    world = demo_world(now=datetime(2026, 1, 5, 12, tzinfo=UTC))
    render = Renderer(world, Index(world), dc_id=2)
    return [
        bytes(render.message(channel, message).raw)
        for channel in world.channels.values()
        for message in channel.messages.values()
    ]


def test_every_kind_of_message_is_read_as_telethon_reads_it(messages: list[bytes]) -> None:
    assert len(messages) > 500
    for data in messages:
        quick, theirs = QuickReader(data), BinaryReader(data)
        assert quick.tgread_object().to_dict() == theirs.tgread_object().to_dict()
        assert quick.position == theirs.position == len(data)


@given(st.lists(st.binary(max_size=300) | st.binary(min_size=250, max_size=600)))
def test_strings_of_any_length_with_what_fills_them_up(found: list[bytes]) -> None:
    data = b"".join(map(TLObject.serialize_bytes, found))
    quick = QuickReader(data)
    assert [quick.tgread_bytes() for _ in found] == found
    assert quick.position == len(data)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1), st.booleans())
def test_numbers_and_booleans(small: int, large: int, huge: int, yes: bool) -> None:
    flag = b"\xb5\x75\x72\x99" if yes else b"\x37\x97\x79\xbc"
    quick = QuickReader(struct.pack("<iIqQ", small, large, huge, large) + flag * 2)
    assert quick.read_int() == small
    assert quick.read_int(signed=False) == large
    assert quick.read_long() == huge
    assert quick.read_long(signed=False) == large
    assert (quick.tgread_bool(), quick.tgread_object()) == (yes, yes)


def test_text_that_is_no_utf8_is_read_all_the_same() -> None:
    assert QuickReader(TLObject.serialize_bytes(b"ab\xff\xd0")).tgread_string() == "ab\ufffd\ufffd"


def cuts(data: bytes) -> Iterator[bytes]:
    return (data[:length] for length in range(0, len(data), 7))


def test_an_answer_that_is_cut_fails_as_with_telethon(messages: list[bytes]) -> None:
    """Or reads the same: Telethon does not look at what fills a string up at the very end."""

    def outcome(reader: Any) -> Any:
        try:
            return reader.tgread_object().to_dict()
        except (struct.error, BufferError, IndexError, TypeNotFoundError):
            return "failed"

    for data in (max(messages, key=len), min(messages, key=len)):
        for part in cuts(data):
            assert outcome(QuickReader(part)) == outcome(BinaryReader(part))


def test_an_unknown_constructor_is_named_and_the_rest_is_kept() -> None:
    data = struct.pack("<I", 0x0BADF00D) + b"rest"
    reader = QuickReader(data)
    with pytest.raises(TypeNotFoundError) as caught:
        reader.tgread_object()
    assert caught.value.invalid_constructor_id == 0x0BADF00D
    assert caught.value.remaining == data
    assert reader.position == 0


def test_a_quick_request_is_sent_as_telegram_knows_it_and_reads_lists_too() -> None:
    query = types.PeerChannel(7)
    assert bytes(QuickRequest(query)) == b"\xb7\x59\x94\xbf" + bytes(query)
    answer = struct.pack("<II", 0x1CB5C415, 2) + bytes(types.PeerUser(1)) + bytes(types.PeerChannel(2))
    assert QuickRequest.read_result(BinaryReader(answer)) == [types.PeerUser(1), types.PeerChannel(2)]
