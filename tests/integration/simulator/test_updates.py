"""Live updates: what is pushed, to whom, and how a client gets over what was lost, doubled or out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from telethon import TelegramClient, events
from telethon.sessions import SQLiteSession, StringSession
from telethon.tl import functions, types

from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Message
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]


class Seen:
    """What a client's handlers saw, in order."""

    def __init__(self, client: Any) -> None:
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        client.add_event_handler(self._new, events.NewMessage)
        client.add_event_handler(self._edited, events.MessageEdited)
        client.add_event_handler(self._deleted, events.MessageDeleted)

    async def _new(self, event: Any) -> None:
        await self._queue.put(("new", event.message.id))

    async def _edited(self, event: Any) -> None:
        await self._queue.put(("edit", (event.message.id, event.message.message)))

    async def _deleted(self, event: Any) -> None:
        await self._queue.put(("delete", event.deleted_ids))

    async def next(self, count: int = 1) -> list[tuple[str, Any]]:
        return [await asyncio.wait_for(self._queue.get(), 300) for _ in range(count)]

    def nothing_more(self) -> bool:
        return self._queue.empty()


def post(world: World, channel: Channel, count: int = 1) -> None:
    for _ in range(count):
        number = channel.newest_id + 1
        world.post(channel, Message(number, datetime.now(UTC), f"post {number}"))


@pytest.fixture
async def watched(connect: Connect, world: World, news: Channel) -> tuple[Any, Seen]:
    """A client that saw one post of News already: from then on it can notice a gap."""
    client = await connect(sequential_updates=True)
    seen = Seen(client)
    post(world, news)
    assert await seen.next() == [("new", 1)]
    return client, seen


async def test_new_edited_and_deleted_posts_are_seen_live(
    world: World, news: Channel, watched: tuple[Any, Seen]
) -> None:
    _, seen = watched
    post(world, news, 2)
    world.edit(news, 2, "better")
    world.delete(news, [1, 3])
    post(world, news)
    assert await seen.next(5) == [
        ("new", 2),
        ("new", 3),
        ("edit", (2, "better")),
        ("delete", [1, 3]),
        ("new", 4),
    ]


async def test_a_push_names_its_channel(world: World, news: Channel, connect: Connect) -> None:
    client = await connect()
    titles: asyncio.Queue[str] = asyncio.Queue()

    async def note(event: Any) -> None:
        await titles.put(event.chat.title)

    client.add_event_handler(note, events.NewMessage)
    post(world, news)
    assert await asyncio.wait_for(titles.get(), 300) == "News"


async def test_only_members_that_want_updates_get_them(
    sim: Simulator, world: World, news: Channel, connect: Connect
) -> None:
    ann, deaf = Seen(await connect()), Seen(await connect(receive_updates=False))
    bob_client = await connect(StringSession(sim.session(1002)))
    bob = Seen(bob_client)
    post(world, news)
    await bob_client(functions.channels.JoinChannelRequest("news_daily"))
    post(world, news)
    assert await ann.next(2) == [("new", 1), ("new", 2)]
    assert await bob.next() == [("new", 2)]
    assert deaf.nothing_more()
    assert bob.nothing_more()


async def test_a_lost_push_is_fetched_when_the_next_shows_the_gap(
    sim: Simulator, world: World, news: Channel, watched: tuple[Any, Seen]
) -> None:
    _, seen = watched
    sim.faults.add(Fault("push_lose", "push.new", channel="@News_Daily", times=2))
    post(world, news, 3)
    assert await seen.next(3) == [("new", 2), ("new", 3), ("new", 4)]
    assert sim.faults.fired["push_lose"] == 2
    assert [c.method for c in sim.rpc_log].count("updates.getChannelDifference") == 1


async def test_a_doubled_push_is_seen_once(
    sim: Simulator, world: World, news: Channel, watched: tuple[Any, Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, seen = watched
    arrived: list[int] = []
    box = type(client._message_box)  # noqa: SLF001 - handlers see a doubled push once: Telethon drops it here
    process = box.process_updates

    def note(self: Any, updates: Any, *rest: Any) -> Any:
        arrived.append(updates.updates[0].pts)
        return process(self, updates, *rest)

    monkeypatch.setattr(box, "process_updates", note)
    sim.faults.add(Fault("push_double", times=1))
    start = news.pts
    post(world, news, 2)
    assert await seen.next(2) == [("new", 2), ("new", 3)]
    assert seen.nothing_more()
    assert arrived == [start + 1, start + 1, start + 2]


async def test_pushes_out_of_order_are_put_in_order_without_a_request(
    sim: Simulator, world: World, news: Channel, watched: tuple[Any, Seen]
) -> None:
    _, seen = watched
    sim.faults.add(Fault("push_reorder", times=1))
    post(world, news, 2)
    assert await seen.next(2) == [("new", 2), ("new", 3)]
    assert "updates.getChannelDifference" not in [c.method for c in sim.rpc_log]


async def test_a_push_kept_back_arrives_even_if_none_follows(
    sim: Simulator, world: World, news: Channel, watched: tuple[Any, Seen]
) -> None:
    _, seen = watched
    sim.faults.add(Fault("push_reorder", times=1))
    post(world, news)
    assert await seen.next() == [("new", 2)]


@pytest.mark.parametrize("mode", ["real", "zero"])
async def test_edits_and_deletions_within_a_difference(
    mode: Any, sim: Simulator, world: World, news: Channel, watched: tuple[Any, Seen]
) -> None:
    """With their true pts Telethon drops them, whatever real servers send: an app must not count on them."""
    _, seen = watched
    sim.diff_pts_mode = mode
    post(world, news)
    assert await seen.next() == [("new", 2)]
    sim.faults.add(Fault("push_lose", times=4))
    world.edit(news, 1, "first")
    world.edit(news, 1, "second")
    world.delete(news, [2])
    post(world, news)
    world.edit(news, 3, "also edited")
    missed = [("edit", (1, "second")), ("delete", [2])] if mode == "zero" else []
    assert await seen.next(1 + len(missed)) == [*missed, ("new", 3)]
    assert seen.nothing_more()


async def test_more_than_a_hundred_missed_changes_are_too_long(
    sim: Simulator, world: World, news: Channel, watched: tuple[Any, Seen]
) -> None:
    client, seen = watched
    sim.faults.add(Fault("push_lose", times=150))
    post(world, news, 151)  # the last one reveals the gap
    async with asyncio.timeout(300):  # TooLong, then once more from there: empty
        await sim.until(lambda: [c.method for c in sim.rpc_log].count("updates.getChannelDifference") == 2)
    post(world, news)
    assert await seen.next() == [("new", 153)], "what was missed is not pushed again"
    missing = [m.id async for m in client.iter_messages("news_daily", min_id=1, max_id=153, wait_time=0)]
    assert missing == list(range(152, 1, -1)), "but it is in the history"


async def test_channel_difference_as_such(world: World, news: Channel, connect: Connect) -> None:
    client = await connect()
    channel = await client.get_input_entity("news_daily")

    async def difference(pts: int, limit: int = 100) -> Any:
        request = functions.updates.GetChannelDifferenceRequest(channel, types.ChannelMessagesFilterEmpty(), pts, limit)
        return await client(request)

    start = news.pts
    post(world, news, 100)
    whole = await difference(start)
    assert [m.id for m in whole.new_messages] == list(range(1, 101))
    assert (whole.pts, whole.final) == (news.pts, True)
    part = await difference(start, limit=30)
    assert (part.pts, part.final, len(part.new_messages)) == (start + 30, False, 30)
    post(world, news)
    long = await difference(start)
    assert (long.final, long.dialog.pts, long.dialog.top_message) == (True, news.pts, 101)
    assert isinstance(await difference(long.dialog.pts), types.updates.ChannelDifferenceEmpty)


async def test_a_client_that_was_away_catches_up(sim: Simulator, world: World, news: Channel, tmp_path: Path) -> None:
    def client() -> Any:
        session = SQLiteSession(str(tmp_path / "ann"))
        session.set_dc(2, "127.0.0.1", sim.port)
        session.auth_key = StringSession(sim.session()).auth_key
        return TelegramClient(session, 1, "hash", catch_up=True, sequential_updates=True)

    first = client()
    seen = Seen(first)
    await first.connect()
    post(world, news)
    assert await seen.next() == [("new", 1)]
    await first.disconnect()

    post(world, news, 3)

    second = client()
    seen = Seen(second)
    await second.connect()
    assert await seen.next(3) == [("new", 2), ("new", 3), ("new", 4)]
    await second.disconnect()


async def test_a_client_thrown_out_of_a_private_channel_hears_no_more(
    world: World, connect: Connect, sim: Simulator
) -> None:
    secret = world.channels[400]
    secret.members.add(1001)
    client = await connect(sequential_updates=True)
    seen = Seen(client)
    post(world, secret)
    assert await seen.next() == [("new", 1)]
    secret.members.discard(1001)
    post(world, secret)
    await client.get_me()
    assert seen.nothing_more()
    assert sim.unhandled == []
