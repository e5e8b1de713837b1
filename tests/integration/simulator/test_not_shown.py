"""What a server may keep to itself: hidden and wiped history, answers, and messages that no client can read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from telethon.errors import TypeNotFoundError
from telethon.sessions import StringSession
from telethon.tl import functions, types

from telegram_simulator.model import Channel, Message
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

READER, OTHER = 1001, 1002


async def history(client: Any, channel: Channel, **asked: Any) -> Any:
    window = {"offset_id": 0, "offset_date": None, "add_offset": 0, "limit": 100, "max_id": 0, "min_id": 0, "hash": 0}
    peer = types.InputPeerChannel(channel.id, channel.access_hash)
    return await client(functions.messages.GetHistoryRequest(peer, **(window | asked)))


def ids(answer: Any) -> list[int]:
    return [message.id for message in answer.messages]


async def test_hidden_history_is_neither_shown_nor_counted_and_its_end_is_told(
    sim: Simulator, news: Channel, connect: Any, fill_news: Callable[[int], None]
) -> None:
    fill_news(9)
    news.hidden[READER] = 6
    client = await connect(StringSession(sim.session(READER)))
    answer = await history(client, news)
    assert (ids(answer), answer.count) == ([9, 8, 7], 3)
    given = types.InputChannel(news.id, news.access_hash)
    by_id = await client(functions.channels.GetMessagesRequest(given, [types.InputMessageID(i) for i in (6, 7)]))
    assert [type(one).__name__ for one in by_id.messages] == ["MessageEmpty", "Message"]
    full = (await client(functions.channels.GetFullChannelRequest(given))).full_chat
    assert (full.available_min_id, full.hidden_prehistory) == (6, True)
    other = await connect(StringSession(sim.session(OTHER)))
    assert len(ids(await history(other, news))) == 9
    assert (await other(functions.channels.GetFullChannelRequest(given))).full_chat.available_min_id is None


async def test_a_wiped_beginning_leaves_the_rest_with_its_ids(
    news: Channel, world: World, connect: Any, fill_news: Callable[[int], None]
) -> None:
    fill_news(9)
    assert world.wipe(news, 7) == tuple(range(1, 8))
    answer = await history(await connect(), news)
    assert (ids(answer), answer.count) == ([9, 8], 2)


@pytest.mark.parametrize("pages,expected", [("cut", [9, 8]), ("padded", [9, 8, 7, 6])])
async def test_a_page_at_the_newest_end(
    sim: Simulator, connect: Any, pages: Any, expected: list[int], fill_news: Callable[[int], None]
) -> None:
    """Four are asked for that end with the second newest: it is short, or older ones fill it up."""
    fill_news(9)
    sim.pages, news = pages, sim.world.channels[100]
    assert ids(await history(await connect(), news, offset_id=8, add_offset=-4, limit=4)) == expected


async def test_a_message_that_no_client_can_read(news: Channel, world: World, connect: Any) -> None:
    world.post(news, Message(1, world.now(), unknown=True))
    client = await connect()
    with pytest.raises(TypeNotFoundError):
        await history(client, news)


async def test_a_server_that_hangs_answers_nobody_and_goes_on_later(
    sim: Simulator, news: Channel, connect: Any, fill_news: Callable[[int], None]
) -> None:
    fill_news(2)
    client = await connect()
    sim.hang()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await history(client, news)
    reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)  # a new one is taken, and hears nothing
    writer.write(b"\xef\x0a" + bytes(40))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await reader.read(1)
    writer.close()
    sim.hang(hung=False)
    assert ids(await history(client, news)) == [2, 1]


async def test_protected_content_says_so(news: Channel, world: World, connect: Any) -> None:
    world.post(news, Message(1, world.now(), "mine", protected=True))
    news.protected = True
    answer = await history(await connect(), news)
    assert (answer.messages[0].noforwards, answer.chats[0].noforwards) == (True, True)
