"""Messages that show late, and pages that leave some out, as a real client meets them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from telethon import events
from telethon.tl import functions, types

from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Message
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]
NOW = datetime(2026, 1, 14, 12, tzinfo=UTC)


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def hands(world: World) -> Hands:
    world.now = made = Hands()
    return made


def say(world: World, channel: Channel, *, later: timedelta | None = None) -> Message:
    number = channel.newest_id + 1
    made = Message(number, world.now(), f"post {number}")
    return world.post(channel, made, visible_at=None if later is None else world.now() + later)


async def ids(client: Any, channel: Channel, **window: Any) -> list[int]:
    found = await client.get_messages(channel.username, limit=100, **window)
    return [message.id for message in reversed(found)]


async def test_a_withheld_message_is_nowhere_until_its_moment(
    hands: Hands, world: World, news: Channel, sim: Simulator, connect: Connect
) -> None:
    for later in (None, timedelta(hours=2), None, timedelta(days=8), None):
        say(world, news, later=later)
    client = await connect()

    async def by_id(number: int) -> Any:
        return await client.get_messages("news_daily", ids=number)

    assert (news.newest_id, news.pts) == (5, 4)
    assert await ids(client, news) == [1, 3, 5]
    assert await by_id(2) is None
    hands.now += timedelta(hours=2)
    assert await ids(client, news) == [1, 2, 3, 5]
    late = await by_id(2)
    assert (late.message, late.date) == ("post 2", NOW)  # dated as it was posted, not as it showed
    assert await ids(client, news, offset_id=4) == [1, 2, 3]
    assert await ids(client, news, offset_date=NOW + timedelta(seconds=1)) == [1, 2, 3, 5]
    hands.now += timedelta(days=8)
    assert await ids(client, news) == [1, 2, 3, 4, 5] == list(news.messages)
    assert sim.unhandled == []


async def test_it_is_pushed_and_in_the_difference_when_it_shows(
    hands: Hands, world: World, news: Channel, sim: Simulator, connect: Connect
) -> None:
    client = await connect(sequential_updates=True)
    seen: list[int] = []

    async def note(event: Any) -> None:
        seen.append(event.message.id)

    client.add_event_handler(note, events.NewMessage)
    await client.get_me()  # from now on this connection is told of news
    say(world, news)
    pts = news.pts
    say(world, news, later=timedelta(minutes=10))
    say(world, news)
    ask = functions.updates.GetChannelDifferenceRequest(
        await client.get_input_entity("news_daily"), types.ChannelMessagesFilterEmpty(), pts, 10
    )
    assert [message.id for message in (await client(ask)).new_messages] == [3]
    hands.now += timedelta(minutes=10)
    assert [message.id for message in (await client(ask)).new_messages] == [3, 2]
    await client.get_me()
    assert seen == [1, 3, 2]
    assert [change.pts for change in news.changes] == [2, 3, 4]
    assert sim.unhandled == []


async def test_what_is_deleted_before_it_shows_never_shows(
    hands: Hands, world: World, news: Channel, connect: Connect
) -> None:
    say(world, news)
    say(world, news, later=timedelta(minutes=10))
    assert world.delete(news, [2]) == ()
    hands.now += timedelta(hours=1)
    assert await ids(await connect(), news) == [1]
    assert (news.pts, list(news.deleted)) == (2, [2])


LEFT = {
    "lose_oldest": [4, 5, 6, 7, 8, 9],
    "lose_middle": [1, 2, 3, 7, 8, 9],
    "lose_newest": [1, 2, 3, 4, 5, 6],
}


@pytest.mark.parametrize("action", LEFT)
async def test_a_page_that_leaves_messages_out_does_so_once(
    action: str, sim: Simulator, news: Channel, connect: Connect, fill_news: Callable[[int], None]
) -> None:
    fill_news(9)
    client = await connect()
    sim.faults.add(Fault(action, "messages.getHistory", times=1))
    assert await ids(client, news) == LEFT[action]
    assert await ids(client, news) == list(range(1, 10))
    assert sim.faults.fired[action] == 1


async def test_a_page_of_two_loses_nothing(sim: Simulator, news: Channel, connect: Connect, world: World) -> None:
    """Else a request for one message would say that there is none."""
    say(world, news)
    say(world, news)
    client = await connect()
    sim.faults.add(Fault("lose_middle", "messages.getHistory"))
    assert await ids(client, news) == [1, 2]
