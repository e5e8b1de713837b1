"""Reading messages: history, by id, comments, search, counters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from telethon.tl import functions, types

from telegram_simulator.errors import RpcError
from telegram_simulator.model import Channel, Kind, Message
from telegram_simulator.rpc.call import Call, Handlers

PAGE = 100  # Telegram gives no more messages than this at once
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def window(
    channel: Channel, ids: Sequence[int], request: Any, date: datetime | None = None, *, padded: bool = False
) -> list[int]:
    """The page of `ids` (ascending) that a request asks for, newest first.

    `offset_id` beats the date; `add_offset` shifts towards older messages. At the newest end the page is cut, or
    `padded`: moved, so that older messages fill it up. `min_id` and `max_id` are applied last.
    """
    if request.offset_id:
        newer = len(ids) - bisect_left(ids, request.offset_id)
    elif date is not None and date > _EPOCH:
        newer = len(ids) - bisect_left(ids, date, key=lambda i: channel.messages[i].date)
    else:
        newer = 0
    start = newer + request.add_offset
    start = max(0, start) if padded else start
    stop = start + min(request.limit, PAGE)
    page = ids[max(0, len(ids) - stop) : max(0, len(ids) - max(0, start))]
    return [i for i in reversed(page) if i > request.min_id and (not request.max_id or i < request.max_id)]


def _messages(call: Call, channel: Channel, page: Sequence[int], count: int, *also: Channel) -> Any:
    rendered = [call.on.render.message(channel, channel.messages[i]) for i in page]
    chats, users = call.on.render.around(rendered, call.me, channel, *also)
    return types.messages.ChannelMessages(
        pts=channel.pts,
        count=count,
        messages=[one.raw for one in rendered],
        topics=[],
        chats=chats,
        users=users,
    )


def get_history(call: Call, request: Any) -> Any:
    if not hasattr(request.peer, "channel_id"):  # a private chat: no user has written there
        return types.messages.Messages([], [], [], [])
    channel = call.channel(request.peer)
    ids = shown_to(call, channel)
    page = window(channel, ids, request, request.offset_date, padded=call.on.pages == "padded")
    return _messages(call, channel, page, len(ids))


def shown_to(call: Call, channel: Channel) -> Sequence[int]:
    """The ids that the user who asks may see: a group may hide what was said before they joined."""
    ids = call.on.index.ids(channel)
    hidden = channel.hidden.get(call.me.id, 0)
    return ids[bisect_right(ids, hidden) :] if hidden else ids


def get_channel_messages(call: Call, request: Any) -> Any:
    """By id: in the order asked, and an empty message for each that is gone."""
    channel = call.channel(request.channel)
    wanted = [getattr(one, "id", 0) for one in request.id]
    if not wanted or len(wanted) > PAGE:
        raise RpcError(400, "MESSAGE_IDS_EMPTY" if not wanted else "LIMIT_INVALID")
    hidden = channel.hidden.get(call.me.id, 0)
    there = [i for i in wanted if i in channel.messages and i > hidden]
    found = {i: call.on.render.message(channel, channel.messages[i]) for i in there}
    chats, users = call.on.render.around(found.values(), call.me, channel)
    return types.messages.ChannelMessages(
        pts=channel.pts,
        count=len(wanted),
        messages=[found[i].raw if i in found else call.on.render.empty(i) for i in wanted],
        topics=[],
        chats=chats,
        users=users,
    )


def get_messages(call: Call, request: Any) -> Any:
    """By id outside channels, where no user writes here."""
    empty = [call.on.render.empty(getattr(one, "id", 0)) for one in request.id]
    return types.messages.Messages(empty, [], [], [])


def _discussion(call: Call, request: Any) -> tuple[Channel, Channel, int]:
    """The channel, its group and the post that a request about comments means, whichever of both it names."""
    named = call.channel(request.peer)
    other = call.on.world.channels.get(named.linked_id or 0)
    message = named.messages.get(request.msg_id)
    if message is None or other is None:
        raise RpcError(400, "MSG_ID_INVALID")
    if not named.group:
        return named, other, request.msg_id
    post_id = message.forward.message_id if message.forward is not None else message.comment_to
    if post_id is None:
        raise RpcError(400, "MSG_ID_INVALID")
    return other, named, post_id


def get_replies(call: Call, request: Any) -> Any:
    channel, group, post_id = _discussion(call, request)
    ids = call.on.index.thread(group, post_id)
    return _messages(call, group, window(group, ids, request, request.offset_date), len(ids), channel)


def get_discussion_message(call: Call, request: Any) -> Any:
    channel, group, post_id = _discussion(call, request)
    root = call.on.index.root(group, post_id)
    if root is None:
        raise RpcError(400, "MSG_ID_INVALID")
    rendered = call.on.render.message(group, group.messages[root])
    chats, users = call.on.render.around([rendered], call.me, channel, group)
    thread = call.on.index.thread(group, post_id)
    return types.messages.DiscussionMessage([rendered.raw], 0, chats, users, max_id=max(thread, default=root))


def _wanted(message: Message, request: Any) -> bool:
    if request.q and request.q.casefold() not in message.text.casefold():
        return False
    match request.filter:
        case types.InputMessagesFilterPinned():
            return message.pinned
        case types.InputMessagesFilterPhotos():
            return message.file is not None and message.file.kind is Kind.PHOTO
        case types.InputMessagesFilterDocument():
            return message.file is not None and message.file.kind is Kind.DOCUMENT
        case types.InputMessagesFilterUrl():
            return any(e.kind in {"url", "text_url"} for e in message.entities)
        case types.InputMessagesFilterEmpty():
            return True
        case _:
            raise RpcError(400, "INPUT_FILTER_INVALID")


def search(call: Call, request: Any) -> Any:
    channel = call.channel(request.peer)
    ids = [i for i in shown_to(call, channel) if _wanted(channel.messages[i], request)]
    if request.min_date is not None and request.min_date > _EPOCH:
        ids = [i for i in ids if channel.messages[i].date > request.min_date]
    return _messages(call, channel, window(channel, ids, request, request.max_date), len(ids))


def get_views(call: Call, request: Any) -> Any:
    """Counters of messages. `increment` is ignored: only the world decides what grows."""
    channel = call.channel(request.peer)
    views = []
    for message_id in request.id:
        message = channel.messages.get(message_id)
        counters = None if message is None else message.counters
        views.append(
            types.MessageViews() if counters is None else types.MessageViews(counters.views, counters.forwards)
        )
    chats, users = call.on.render.around([], call.me, channel)
    return types.messages.MessageViews(views, chats, users)


HANDLERS: Handlers = {
    functions.messages.GetHistoryRequest: get_history,
    functions.channels.GetMessagesRequest: get_channel_messages,
    functions.messages.GetMessagesRequest: get_messages,
    functions.messages.GetRepliesRequest: get_replies,
    functions.messages.GetDiscussionMessageRequest: get_discussion_message,
    functions.messages.SearchRequest: search,
    functions.messages.GetMessagesViewsRequest: get_views,
}
