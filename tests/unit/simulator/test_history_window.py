"""The page that getHistory gives, against the plainest way to say it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telethon.tl import functions, types

from telegram_simulator.model import Channel, Message
from telegram_simulator.rpc.history import window

pytestmark = pytest.mark.unit

START = datetime(2024, 1, 1, tzinfo=UTC)


def channel_of(ids: list[int]) -> Channel:
    channel = Channel(1, 1, "C", None, START)
    channel.messages = {i: Message(i, START + timedelta(seconds=i)) for i in ids}
    return channel


@dataclass(frozen=True)
class Asked:
    """A request for a page of a channel with these ids."""

    ids: list[int]
    offset_id: int
    offset_second: int | None
    add_offset: int
    limit: int
    max_id: int
    min_id: int


@given(
    st.builds(
        Asked,
        ids=st.sets(st.integers(1, 400), max_size=150).map(sorted),
        offset_id=st.integers(0, 410),
        offset_second=st.none() | st.integers(0, 410),
        add_offset=st.integers(-120, 120),
        limit=st.integers(0, 150),
        max_id=st.integers(0, 400),
        min_id=st.integers(0, 400),
    )
)
def test_a_page_is_a_slice_of_the_newest_first_list(asked: Asked) -> None:
    ids, channel = asked.ids, channel_of(asked.ids)
    date = None if asked.offset_second is None else START + timedelta(seconds=asked.offset_second)
    request = functions.messages.GetHistoryRequest(
        types.InputPeerEmpty(), asked.offset_id, date, asked.add_offset, asked.limit, asked.max_id, asked.min_id, 0
    )

    newest_first = ids[::-1]
    if asked.offset_id:
        first = sum(i >= asked.offset_id for i in ids)
    elif date is not None:
        first = sum(channel.messages[i].date >= date for i in ids)
    else:
        first = 0
    places = range(first + asked.add_offset, first + asked.add_offset + min(asked.limit, 100))
    expected = [newest_first[place] for place in places if 0 <= place < len(ids)]
    expected = [i for i in expected if i > asked.min_id and (not asked.max_id or i < asked.max_id)]

    assert window(channel, ids, request, date) == expected
