"""Channels: what they are, joining and leaving, dialogs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from telethon.tl import functions, types

from telegram_simulator.errors import RpcError
from telegram_simulator.model import GENERAL, Channel
from telegram_simulator.rpc.call import Call, Handlers

MOST_TOPICS = 100  # in an answer
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def get_channels(call: Call, request: Any) -> Any:
    chats = []
    for given in request.id:
        channel = call.known_channel(given)
        if channel.private and call.me.id not in channel.members:
            chats.append(types.ChannelForbidden(channel.id, channel.access_hash, channel.title))
        else:
            chats.append(call.on.render.channel(channel, call.me))
    return types.messages.Chats(chats)


def get_full_channel(call: Call, request: Any) -> Any:
    channel = call.channel(request.channel)
    pinned = [i for i in call.on.index.ids(channel) if channel.messages[i].pinned]
    full = types.ChannelFull(
        id=channel.id,
        about=channel.about,
        read_inbox_max_id=0,
        read_outbox_max_id=0,
        unread_count=0,
        chat_photo=types.PhotoEmpty(0),
        notify_settings=types.PeerNotifySettings(),
        bot_info=[],
        pts=channel.pts,
        participants_count=channel.subscribers or len(channel.members),
        pinned_msg_id=max(pinned, default=None),
        linked_chat_id=channel.linked_id,
        available_min_id=channel.hidden.get(call.me.id),
        hidden_prehistory=bool(channel.hidden),
    )
    linked = call.on.world.channels.get(channel.linked_id or 0)
    shown = [channel] if linked is None else [channel, linked]
    return types.messages.ChatFull(full, [call.on.render.channel(one, call.me) for one in shown], [])


def get_forum_topics(call: Call, request: Any) -> Any:
    """The one with the newest message first; a page goes on after the topic that the last one ended with."""
    group = call.channel(request.peer)
    if not group.topics:
        raise RpcError(400, "CHANNEL_FORUM_MISSING")
    tops = {i: group.messages[i] for i in group.topics if i in group.messages}
    for message in group.messages.values():
        tops[message.topic or (message.id if message.id in group.topics else GENERAL)] = message
    there = sorted((i for i in tops if i in group.topics), key=lambda i: (tops[i].date, i), reverse=True)
    start = there.index(request.offset_topic) + 1 if request.offset_topic in there else 0
    page = there[start : start + max(1, min(request.limit, MOST_TOPICS))]
    rendered = [call.on.render.message(group, tops[i]) for i in page]
    chats, users = call.on.render.around(rendered, call.me, group)
    topics = [call.on.render.topic(group, group.topics[i], tops[i]) for i in page]
    return types.messages.ForumTopics(len(there), topics, [one.raw for one in rendered], chats, users, group.pts)


def _membership(call: Call, channel: Channel) -> Any:
    """The updates that tell a client that its membership changed."""
    return types.Updates(
        updates=[types.UpdateChannel(channel.id)],
        users=[],
        chats=[call.on.render.channel(channel, call.me)],
        date=call.on.world.now(),
        seq=0,
    )


def join(call: Call, request: Any) -> Any:
    channel = call.channel(request.channel)
    channel.members.add(call.me.id)
    return _membership(call, channel)


def leave(call: Call, request: Any) -> Any:
    channel = call.channel(request.channel)
    if call.me.id not in channel.members:
        raise RpcError(400, "USER_NOT_PARTICIPANT")
    channel.members.discard(call.me.id)
    return _membership(call, channel)


def _invited(call: Call, invite: str) -> Channel:
    for channel in call.on.world.channels.values():
        if channel.invite == invite:
            return channel
    raise RpcError(400, "INVITE_HASH_EXPIRED")


def check_invite(call: Call, request: Any) -> Any:
    me, channel = call.me, _invited(call, request.hash)
    if me.id in channel.members:
        return types.ChatInviteAlready(call.on.render.channel(channel, me))
    return types.ChatInvite(
        channel.title,
        types.PhotoEmpty(0),
        channel.subscribers,
        0,
        channel=True,
        broadcast=not channel.group,
        megagroup=channel.group,
    )


def import_invite(call: Call, request: Any) -> Any:
    me, channel = call.me, _invited(call, request.hash)
    if me.id in channel.members:
        raise RpcError(400, "USER_ALREADY_PARTICIPANT")
    channel.members.add(me.id)
    return types.messages.ChatInviteJoinResultOk(_membership(call, channel))


def dialog(channel: Channel) -> Any:
    """A channel's row in the list of dialogs."""
    return types.Dialog(
        peer=types.PeerChannel(channel.id),
        top_message=next(reversed(channel.messages), 0),
        read_inbox_max_id=0,
        read_outbox_max_id=0,
        unread_count=0,
        unread_mentions_count=0,
        unread_reactions_count=0,
        unread_poll_votes_count=0,
        notify_settings=types.PeerNotifySettings(),
        pts=channel.pts,
    )


def get_dialogs(call: Call, request: Any) -> Any:
    """The channels that the user joined, the one with the newest post first."""
    me, index = call.me, call.on.index
    mine = [c for c in call.on.world.channels.values() if me.id in c.members] if not request.folder_id else []
    tops = {c.id: c.messages[index.ids(c)[-1]] if c.messages else None for c in mine}

    def newest(channel: Channel) -> tuple[datetime, int]:
        top = tops[channel.id]
        return (channel.created if top is None else top.date.replace(microsecond=0), channel.id)

    mine.sort(key=newest, reverse=True)
    total = len(mine)
    if request.offset_date is not None and request.offset_date > _EPOCH:
        edge = (request.offset_date, getattr(request.offset_peer, "channel_id", 0))
        mine = [channel for channel in mine if newest(channel) < edge]
    page = mine[: max(1, min(request.limit, 100))]
    shown = [(c, tops[c.id]) for c in page]
    rendered = [call.on.render.message(c, top) for c, top in shown if top is not None]
    chats, users = call.on.render.around(rendered, me, *page)
    parts = ([dialog(c) for c in page], [one.raw for one in rendered], chats, users)
    if len(page) == total:
        return types.messages.Dialogs(*parts)
    return types.messages.DialogsSlice(total, *parts)


def get_peer_dialogs(call: Call, request: Any) -> Any:
    """The rows of named channels: where they stand, without their history."""
    channels = [call.channel(getattr(one, "peer", None)) for one in request.peers]
    tops = [(c, c.messages[call.on.index.ids(c)[-1]]) for c in channels if c.messages]
    rendered = [call.on.render.message(channel, top) for channel, top in tops]
    chats, users = call.on.render.around(rendered, call.me, *channels)
    state = types.updates.State(1, 0, call.on.world.now(), 0, 0)
    rows = [dialog(channel) for channel in channels]
    return types.messages.PeerDialogs(rows, [one.raw for one in rendered], chats, users, state)


def get_dialog_filters(call: Call, _request: Any) -> Any:
    """The user's folders."""
    world = call.on.world
    folders = [
        types.DialogFilter(
            number,
            types.TextWithEntities(title, []),
            pinned_peers=[],
            include_peers=[types.InputPeerChannel(one, world.channels[one].access_hash) for one in ids],
            exclude_peers=[],
        )
        for number, (title, ids) in enumerate(call.me.folders.items(), start=2)
    ]
    return types.messages.DialogFilters([types.DialogFilterDefault(), *folders])


def check_chatlist_invite(call: Call, request: Any) -> Any:
    """A folder that its owner shares."""
    if request.slug not in call.on.world.shared:
        raise RpcError(400, "INVITE_SLUG_EXPIRED")
    title, ids = call.on.world.shared[request.slug]
    channels = [call.on.world.channels[one] for one in ids]
    peers = [types.PeerChannel(channel.id) for channel in channels]
    chats = [call.on.render.channel(channel, call.me) for channel in channels]
    return types.chatlists.ChatlistInvite(types.TextWithEntities(title, []), peers, chats, [])


HANDLERS: Handlers = {
    functions.messages.GetForumTopicsRequest: get_forum_topics,
    functions.messages.GetDialogFiltersRequest: get_dialog_filters,
    functions.chatlists.CheckChatlistInviteRequest: check_chatlist_invite,
    functions.channels.GetChannelsRequest: get_channels,
    functions.channels.GetFullChannelRequest: get_full_channel,
    functions.channels.JoinChannelRequest: join,
    functions.channels.LeaveChannelRequest: leave,
    functions.messages.CheckChatInviteRequest: check_invite,
    functions.messages.ImportChatInviteRequest: import_invite,
    functions.messages.GetDialogsRequest: get_dialogs,
    functions.messages.GetPeerDialogsRequest: get_peer_dialogs,
}
