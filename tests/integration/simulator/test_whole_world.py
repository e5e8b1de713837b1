"""A generated world, read to the end through Telethon while it lives on, is what its truth says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from telethon import TelegramClient, errors, events
from telethon.sessions import StringSession
from telethon.tl import types

from telegram_simulator.generate import build_world
from telegram_simulator.life import Life
from telegram_simulator.model import Channel, Message
from telegram_simulator.server import Simulator
from telegram_simulator.truth import truth_of
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
KEPT = ("id", "date", "text", "grouped_id", "forward", "sender_id", "poll", "author", "edited", "pinned", "media")
ACTIONS = {
    types.MessageActionPinMessage: "pin",
    types.MessageActionChatEditTitle: "title",
    types.MessageActionChatEditPhoto: "photo",
    types.MessageActionChannelCreate: "created",
}


def media_of(message: Any) -> dict[str, Any] | None:
    if isinstance(message.media, types.MessageMediaPhoto):
        full = message.photo.sizes[-1]
        return {"kind": "photo", "id": message.photo.id, "size": full.size, "width": full.w, "height": full.h}
    if isinstance(message.media, types.MessageMediaDocument):
        found = message.document
        return {
            "kind": "document",
            "id": found.id,
            "size": found.size,
            "mime": found.mime_type,
            "name": message.file.name,
        }
    return None


def poll_of(message: Any) -> dict[str, Any] | None:
    if not isinstance(message.media, types.MessageMediaPoll):
        return None
    poll = message.media.poll
    return {"id": poll.id, "question": poll.question.text, "answers": [a.text.text for a in poll.answers]}


def read(message: Any) -> dict[str, Any]:
    """A message as a client has it, in the words of the truth."""
    forward = message.fwd_from
    return {
        "id": message.id,
        "date": message.date.isoformat(),
        "text": message.message or "",
        "entities": [
            {
                "kind": type(e).__name__.removeprefix("MessageEntity").lower(),
                "offset": e.offset,
                "length": e.length,
                "url": getattr(e, "url", None),
            }
            for e in message.entities or ()
        ],
        "media": media_of(message),
        "grouped_id": message.grouped_id,
        "forward": forward
        and {
            "channel_id": forward.from_id.channel_id,
            "message_id": forward.channel_post,
            "date": forward.date.isoformat(),
            "author": forward.post_author,
        },
        "sender_id": message.from_id and message.from_id.user_id,
        "poll": poll_of(message),
        "service": message.action and ACTIONS[type(message.action)],
        "author": message.post_author,
        "edited": message.edit_date and message.edit_date.isoformat(),
        "pinned": bool(message.pinned),
        "reactions": {r.reaction.emoticon: r.count for r in message.reactions.results} if message.reactions else {},
    }


def told(row: dict[str, Any]) -> dict[str, Any]:
    """The same from a row of the truth."""
    kept = {key: row[key] for key in KEPT}
    kept["entities"] = [{**e, "kind": e["kind"].replace("_", "")} for e in row["entities"]]
    if row["media"] is not None:
        photo = row["media"]["kind"] == "photo"
        keys = ("kind", "id", "size", "width", "height") if photo else ("kind", "id", "size", "mime", "name")
        kept["media"] = {key: row["media"][key] for key in keys}
    kept["service"] = row["service"] and row["service"]["action"]
    kept["reactions"] = row["counters"]["reactions"]
    if row["service"]:  # a service message has no reactions, counters or pin on the wire
        kept["reactions"], kept["pinned"] = {}, False
    return kept


@pytest.fixture
def world() -> World:
    return build_world(seed=11, channels=6, posts=120, now=NOW, readers=1)


@pytest.fixture
async def client(sim: Simulator) -> AsyncIterator[Any]:
    client = TelegramClient(StringSession(sim.session()), 1, "hash", flood_sleep_threshold=0, sequential_updates=True)
    assert client.session.server_address == "127.0.0.1"
    await client.connect()
    yield client
    await client.disconnect()


def peer(channel: Channel) -> Any:
    return types.InputPeerChannel(channel.id, channel.access_hash)


def readable(world: World) -> list[Channel]:
    """The channels that the reader, who is the first user, may read."""
    me = next(iter(world.users))
    return [c for c in world.channels.values() if not c.private or me in c.members]


async def test_everything_that_is_read_is_true(world: World, client: Any) -> None:
    truth = {row["id"]: row for row in truth_of(world)["channels"]}
    open_channels = readable(world)
    for channel in open_channels:
        messages = [read(m) async for m in client.iter_messages(peer(channel), wait_time=0, reverse=True)]
        assert messages == [told(row) for row in truth[channel.id]["messages"]]
    for closed in [c for c in world.channels.values() if c not in open_channels]:
        with pytest.raises(errors.ChannelPrivateError):
            await client.get_messages(peer(closed), limit=1)


async def test_comments_are_those_of_their_post(world: World, client: Any) -> None:
    groups = [c for c in readable(world) if c.group and c.linked_id]
    assert groups
    for group in groups:
        channel = world.channels[group.linked_id or 0]
        if channel not in readable(world):
            continue
        posts = {m.comment_to or 0 for m in group.messages.values()} & set(channel.messages)
        for post_id in sorted(posts)[:5]:
            found = [m.id async for m in client.iter_messages(peer(channel), reply_to=post_id, wait_time=0)]
            assert found[::-1] == [i for i, m in group.messages.items() if m.comment_to == post_id]


async def test_files_are_the_bytes_they_say(world: World, client: Any) -> None:
    kinds = set()
    for channel in readable(world):
        async for message in client.iter_messages(peer(channel), limit=60, wait_time=0):
            file = channel.messages[message.id].file
            if file is None or file.kind in kinds:
                continue
            kinds.add(file.kind)
            data = await client.download_media(message, bytes)
            assert data == file.data
            assert len(data) == file.size
    assert len(kinds) == 2


async def test_life_is_pushed_as_it_happens(world: World, client: Any) -> None:
    life = Life(world, seed=3)
    me = next(iter(world.users))
    mine = {c.id for c in readable(world) if me in c.members}
    posted: list[tuple[int, int]] = []
    world.listen(
        lambda c, change: posted.append((c.id, change.ids[0])) if c.id in mine and change.kind == "new" else None
    )
    pushed: list[tuple[int, int]] = []
    end = asyncio.Event()

    async def note(update: Any) -> None:
        pushed.append((update.message.peer_id.channel_id, update.message.id))
        if update.message.message == "the end":
            end.set()

    client.add_event_handler(note, events.Raw(types.UpdateNewChannelMessage))
    life.step(NOW + timedelta(hours=6))
    last = world.channels[min(mine)]
    world.post(last, Message(last.newest_id + 1, world.now(), "the end"))
    await asyncio.wait_for(end.wait(), 300)
    assert len(posted) > 10
    assert pushed == posted
