"""Reading channels: everything, from any end, exactly once, whatever breaks on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from telethon import errors
from telethon.tl import functions, types

from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Entity, Forward, Kind, Message
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]


def facts(message: Any) -> dict[str, Any]:
    """What a client holds of a message."""
    forward = message.fwd_from
    media = message.media
    return {
        "id": message.id,
        "date": message.date,
        "text": message.message or "",
        "entities": [
            (type(e).__name__.removeprefix("MessageEntity").lower(), e.offset, e.length, getattr(e, "url", None))
            for e in message.entities or ()
        ],
        "photo": media.photo.id if isinstance(media, types.MessageMediaPhoto) else None,
        "document": media.document.id if isinstance(media, types.MessageMediaDocument) else None,
        "poll": [a.text.text for a in media.poll.answers] if isinstance(media, types.MessageMediaPoll) else None,
        "action": type(message.action).__name__ if message.action else None,
        "group": message.grouped_id,
        "forward": (forward.from_id.channel_id, forward.channel_post, forward.date) if forward else None,
        "reply": message.reply_to.reply_to_msg_id if message.reply_to else None,
        "author": message.post_author,
        "views": message.views,
        "reactions": {r.reaction.emoticon: r.count for r in message.reactions.results} if message.reactions else {},
        "edited": message.edit_date,
    }


def truth(message: Message) -> dict[str, Any]:
    """The same from the world."""
    forward, file = message.forward, message.file
    return {
        "id": message.id,
        "date": message.date,
        "text": message.text,
        "entities": [(e.kind.replace("_", ""), e.offset, e.length, e.url) for e in message.entities],
        "photo": file.id if file and file.kind is Kind.PHOTO else None,
        "document": file.id if file and file.kind is Kind.DOCUMENT else None,
        "poll": list(message.poll.answers) if message.poll else None,
        "action": "MessageActionChannelCreate" if message.service else None,
        "group": message.grouped_id,
        "forward": (forward.channel_id, forward.message_id, forward.date) if forward else None,
        "reply": message.reply_to,
        "author": message.author,
        "views": None if message.service else message.counters.views,
        "reactions": message.counters.reactions,
        "edited": message.edited,
    }


async def patiently(client: Any, channel: Any, **bounds: Any) -> AsyncIterator[Any]:
    """All messages of a channel, as an app reads them: after an error it goes on behind the last one it has."""
    oldest_first = bounds.get("reverse", False)
    done = False
    while not done:
        try:
            async for message in client.iter_messages(channel, wait_time=0, **bounds):
                yield message
                bounds["min_id" if oldest_first else "max_id"] = message.id
            done = True
        except (errors.FloodWaitError, errors.FloodPremiumWaitError, ConnectionError, ValueError):
            await asyncio.sleep(0)  # the waits in these tests are 0 s


FAULTS = [
    Fault("flood", "messages.*", probability=0.02),
    Fault("flood_premium", "messages.*", probability=0.01),
    Fault("drop", "messages.*", probability=0.025),
    Fault("lose", "messages.*", probability=0.025),
    Fault("cut", "messages.*", probability=0.02),
    Fault("error", "messages.*", code=500, message="INTERNAL", skip=50, times=1),  # Telethon sleeps 2 s for each
    Fault("error", "messages.*", code=-503, message="Timeout", skip=200, times=1),
]


async def test_twenty_thousand_messages_each_once_and_true_with_a_tenth_of_requests_faulted(
    sim: Simulator, world: World, news: Channel, fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(20_300)
    world.delete(news, range(57, 20_300, 68))
    world.edit(news, 20_000, "edited", entities=(Entity("italic", 0, 6),))
    expected = [truth(m) for m in news.messages.values()]
    assert len(expected) > 20_000
    sim.faults.add(*FAULTS)
    client = await connect()

    backwards = [facts(m) async for m in patiently(client, "news_daily")]
    assert backwards == expected[::-1]

    forwards = [facts(m) async for m in patiently(client, "news_daily", reverse=True)]
    assert forwards == expected

    ranges: list[dict[str, Any]] = []
    for start in range(0, 20_301, 1_500):
        bounds = {"min_id": start, "max_id": start + 1_501}
        ranges += [facts(m) async for m in patiently(client, "news_daily", reverse=True, **bounds)]
    assert ranges == expected

    requests = [call for call in sim.rpc_log if call.method == "messages.getHistory"]
    faulted = [call for call in requests if call.outcome != "ok"]
    assert len(faulted) > len(requests) * 0.08
    assert set(sim.faults.fired) == {"flood", "flood_premium", "drop", "lose", "cut", "error"}


async def test_history_from_a_date_is_older_than_it(
    sim: Simulator, news: Channel, fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(300)
    client = await connect()
    page = await client.get_messages("news_daily", limit=3, offset_date=news.messages[200].date)
    assert [m.id for m in page] == [199, 198, 197]
    assert page.total == 300
    assert sim.rpc_log[-1].method == "messages.getHistory"


async def test_min_and_max_id_of_the_raw_request_cut_the_page(
    fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(150)
    client = await connect()
    peer = await client.get_input_entity("news_daily")
    page = await client(
        functions.messages.GetHistoryRequest(
            peer, offset_id=100, offset_date=None, add_offset=-5, limit=10, max_id=103, min_id=97, hash=0
        )
    )
    assert [m.id for m in page.messages] == [102, 101, 100, 99, 98]


async def test_messages_by_id_come_in_the_order_asked_with_gaps(
    world: World, news: Channel, fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(30)
    world.delete(news, [7])
    client = await connect()
    found = await client.get_messages("news_daily", ids=[9, 7, 3, 500])
    assert [m and m.id for m in found] == [9, None, 3, None]


async def test_a_forward_brings_the_channel_it_came_from(fill_news: Callable[[int], None], connect: Connect) -> None:
    fill_news(16)
    client = await connect()
    message = await client.get_messages("news_daily", ids=16)
    assert message.forward.chat.title == "Quiet"


async def test_comments_are_read_under_their_post(
    world: World, news: Channel, fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(5)
    talk = world.channels[200]
    now = world.now()
    world.post(talk, Message(1, now, "Пост", forward=Forward(news.id, 5, now)))
    for number in range(2, 140):
        world.post(talk, Message(number, now, f"comment {number}", comment_to=5 if number % 2 else 4, sender_id=1002))
    world.post(talk, Message(140, now, "reply", comment_to=5, sender_id=1001, reply_to=139))
    client = await connect()
    comments = [m async for m in client.iter_messages("news_daily", reply_to=5, wait_time=0)]
    assert [m.id for m in comments] == [140, *range(139, 2, -2)]
    assert comments[1].sender.first_name == "Bob"
    assert comments[1].reply_to.reply_to_msg_id == 1
    assert (comments[0].reply_to.reply_to_msg_id, comments[0].reply_to.reply_to_top_id) == (139, 1)

    world.delete(talk, [139])
    world.post(talk, Message(141, now, "late", comment_to=5, sender_id=1002))
    comments = await client.get_messages("news_daily", reply_to=5, limit=3)
    assert [m.id for m in comments] == [141, 140, 137]

    peer = await client.get_input_entity("news_daily")
    root = await client(functions.messages.GetDiscussionMessageRequest(peer, 5))
    assert root.messages[0].id == 1
    with pytest.raises(errors.MsgIdInvalidError):
        await client(functions.messages.GetDiscussionMessageRequest(peer, 999))


async def test_search_by_text_and_by_kind(
    world: World, news: Channel, fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(120)
    news.messages[50].pinned = True
    client = await connect()
    assert [m.id for m in await client.get_messages("news_daily", search="ПОСТ 11", limit=5)] == [
        119,
        118,
        117,
        116,
        115,
    ]
    pinned = await client.get_messages("news_daily", filter=types.InputMessagesFilterPinned, limit=5)
    assert [m.id for m in pinned] == [50]
    photos = await client.get_messages("news_daily", filter=types.InputMessagesFilterPhotos, limit=200)
    assert [m.id for m in photos] == [i for i in range(119, 1, -1) if i % 11 in {2, 3}]
    assert world.channels[100].messages[50].pinned


async def test_counters_grow_and_are_read_again(
    world: World, news: Channel, fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(5)
    client = await connect()
    before = await client.get_messages("news_daily", ids=5)
    world.grow(news, 5, views=10, forwards=2, reactions={"🔥": 3})
    after = await client.get_messages("news_daily", ids=5)
    assert (after.views - before.views, after.forwards - before.forwards) == (10, 2)
    assert {r.reaction.emoticon: r.count for r in after.reactions.results} == {"👍": 2, "🔥": 3}
    assert after.edit_date is None
    peer = await client.get_input_entity("news_daily")
    counted = await client(functions.messages.GetMessagesViewsRequest(peer, [5, 99], increment=False))
    assert [v.views for v in counted.views] == [after.views, None]


async def test_dialogs_are_the_joined_channels_newest_first(
    world: World, fill_news: Callable[[int], None], connect: Connect
) -> None:
    fill_news(3)
    for number in range(1_000, 1_240):
        channel = world.add_channel(Channel(number, number, f"C{number}", None, world.now(), members={1001}))
        world.post(channel, Message(1, world.now(), "hi"))
    client = await connect()
    dialogs = [d async for d in client.iter_dialogs()]
    assert len(dialogs) == 242
    assert {d.title for d in dialogs} == {"News", "Talk", *(f"C{n}" for n in range(1_000, 1_240))}
    assert [d.title for d in dialogs[-2:]] == ["News", "Talk"]  # old posts, and none at all


async def test_where_channels_stand_can_be_asked_for_many_at_once(
    connect: Connect, news: Channel, fill_news: Callable[[int], None]
) -> None:
    fill_news(4)
    client = await connect()
    peers = [types.InputDialogPeer(await client.get_input_entity(name)) for name in ("news_daily", "quiet")]
    found = await client(functions.messages.GetPeerDialogsRequest(peers))
    assert [(d.top_message, d.pts) for d in found.dialogs] == [(4, news.pts), (0, 1)]


async def test_a_channel_says_what_it_is(connect: Connect, fill_news: Callable[[int], None]) -> None:
    fill_news(4)
    client = await connect()
    channel = await client.get_entity("@NEWS_daily")
    assert (channel.id, channel.title, channel.broadcast, channel.left) == (100, "News", True, False)
    full = await client(functions.channels.GetFullChannelRequest(channel))
    assert (full.full_chat.about, full.full_chat.participants_count) == ("All of it", 77)
    assert full.full_chat.linked_chat_id == 200
    me = await client(functions.users.GetFullUserRequest("me"))
    assert me.users[0].phone == "79990000001"
    with pytest.raises(ValueError, match="nobody_here"):  # Telethon's way to say USERNAME_NOT_OCCUPIED
        await client.get_entity("nobody_here")


async def test_a_private_channel_is_closed_until_the_invitation_is_taken(world: World, connect: Connect) -> None:
    world.post(world.channels[400], Message(1, world.now(), "psst"))
    client = await connect()
    secret = types.InputPeerChannel(400, 14)
    with pytest.raises(errors.ChannelPrivateError):
        await client.get_messages(secret, limit=1)
    with pytest.raises(errors.ChannelPrivateError):
        await client(functions.channels.GetFullChannelRequest(secret))
    with pytest.raises(errors.InviteHashExpiredError):
        await client(functions.messages.CheckChatInviteRequest("wrong"))
    invite = await client(functions.messages.CheckChatInviteRequest("come-in"))
    assert invite.title == "Secret"
    await client(functions.messages.ImportChatInviteRequest("come-in"))
    assert [m.text for m in await client.get_messages(secret, limit=1)] == ["psst"]


async def test_joining_and_leaving_a_public_channel(world: World, connect: Connect) -> None:
    client = await connect()
    await client(functions.channels.JoinChannelRequest("quiet"))
    assert world.channels[300].members == {1001}
    await client(functions.channels.LeaveChannelRequest("quiet"))
    assert world.channels[300].members == set()
    with pytest.raises(errors.UserNotParticipantError):
        await client(functions.channels.LeaveChannelRequest("quiet"))


async def test_a_wrong_access_hash_is_refused(connect: Connect) -> None:
    client = await connect()
    with pytest.raises(errors.ChannelInvalidError):
        await client.get_messages(types.InputPeerChannel(100, 999), limit=1)
