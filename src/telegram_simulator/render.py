"""The world as TL objects. A message is serialised once and kept until it changes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from telethon.tl import types

from telegram_simulator import render_media
from telegram_simulator.envelope import Raw
from telegram_simulator.index import Index
from telegram_simulator.model import Channel, Message, Service, Topic, User
from telegram_simulator.world import World

ICON_COLOUR = 0x6FB9F0
UNKNOWN = struct.pack("<I", 0xDEADBEEF) + bytes(64)  # of a constructor that is in no layer


@dataclass(slots=True, frozen=True)
class Rendered:
    """A message's bytes, and whom a client must be told of to understand it."""

    raw: Raw
    changes: int
    channels: frozenset[int]
    users: frozenset[int]


class Renderer:
    """Makes TL objects of what is in one world."""

    def __init__(self, world: World, index: Index, dc_id: int) -> None:
        self._world = world
        self._index = index
        self._dc_id = dc_id
        self._messages: dict[int, dict[int, Rendered]] = {}

    def message(self, channel: Channel, message: Message) -> Rendered:
        kept = self._messages.setdefault(channel.id, {})
        rendered = kept.get(message.id)
        if rendered is None or rendered.changes != message.changes:
            rendered = kept[message.id] = self._render(channel, message)
        return rendered

    def empty(self, message_id: int) -> Raw:
        return Raw(bytes(types.MessageEmpty(message_id, None)))

    def channel(self, channel: Channel, viewer: User) -> Any:
        return types.Channel(
            id=channel.id,
            title=channel.title,
            photo=types.ChatPhotoEmpty(),
            date=channel.created,
            left=viewer.id not in channel.members,
            broadcast=not channel.group,
            megagroup=channel.group,
            forum=bool(channel.topics),
            has_link=channel.linked_id is not None,
            access_hash=channel.access_hash,
            username=channel.username,
            participants_count=channel.subscribers or None,
            noforwards=channel.protected,
        )

    def topic(self, channel: Channel, topic: Topic, top_message: Message) -> Any:
        first = channel.messages.get(topic.id)
        return types.ForumTopic(
            id=topic.id,
            date=channel.created if first is None else first.date,
            peer=types.PeerChannel(channel.id),
            title=topic.title,
            icon_color=ICON_COLOUR,
            top_message=top_message.id,
            read_inbox_max_id=0,
            read_outbox_max_id=0,
            unread_count=0,
            unread_mentions_count=0,
            unread_reactions_count=0,
            unread_poll_votes_count=0,
            from_id=types.PeerChannel(channel.id),
            notify_settings=types.PeerNotifySettings(),
            closed=topic.closed,
            hidden=topic.hidden,
        )

    def user(self, user: User, viewer: User) -> Any:
        is_self = user.id == viewer.id
        return types.User(
            id=user.id,
            is_self=is_self,
            access_hash=user.access_hash,
            first_name=user.first_name,
            username=user.username,
            phone=user.phone.removeprefix("+") if is_self and user.phone else None,
        )

    def around(self, rendered: Iterable[Rendered], viewer: User, *channels: Channel) -> tuple[list[Any], list[Any]]:
        """The chats and users that go with messages."""
        chat_ids = {channel.id for channel in channels}
        user_ids: set[int] = set()
        for one in rendered:
            chat_ids |= one.channels
            user_ids |= one.users
        world = self._world
        chats = [self.channel(world.channels[i], viewer) for i in sorted(chat_ids) if i in world.channels]
        users = [self.user(world.users[i], viewer) for i in sorted(user_ids) if i in world.users]
        return chats, users

    def _render(self, channel: Channel, message: Message) -> Rendered:
        if message.unknown:
            return Rendered(Raw(UNKNOWN), message.changes, frozenset(), frozenset())
        body = self._service(channel, message) if message.service else self._plain(channel, message)
        channels = {channel.id}
        if message.forward is not None:
            channels.add(message.forward.channel_id)
        users = frozenset(() if message.sender_id is None else (message.sender_id,))
        return Rendered(Raw(bytes(body)), message.changes, frozenset(channels), users)

    def _plain(self, channel: Channel, message: Message) -> Any:
        counters = message.counters
        return types.Message(
            id=message.id,
            peer_id=types.PeerChannel(channel.id),
            from_id=None if message.sender_id is None else types.PeerUser(message.sender_id),
            date=message.date,
            message=message.text,
            post=not channel.group,
            pinned=message.pinned,
            noforwards=message.protected,
            entities=[render_media.entity(e) for e in message.entities] or None,
            media=self._media(message),
            fwd_from=_forward(message),
            reply_to=self._reply(channel, message),
            views=None if channel.group else counters.views,
            forwards=None if channel.group else counters.forwards,
            replies=_replies(channel, message),
            reactions=_reactions(counters.reactions),
            edit_date=message.edited,
            post_author=message.author,
            grouped_id=message.grouped_id,
        )

    def _service(self, channel: Channel, message: Message) -> Any:
        return types.MessageService(
            id=message.id,
            peer_id=types.PeerChannel(channel.id),
            from_id=None if message.sender_id is None else types.PeerUser(message.sender_id),
            date=message.date,
            post=not channel.group,
            reply_to=self._reply(channel, message),
            action=_action(channel, message.service),
        )

    def _reply(self, channel: Channel, message: Message) -> Any:
        top = None if message.comment_to is None else self._index.root(channel, message.comment_to)
        top = message.topic or top
        answered = message.reply_to or top
        if answered is None:
            return None
        return types.MessageReplyHeader(
            forum_topic=message.topic is not None,
            reply_to_msg_id=answered,
            reply_to_top_id=None if answered == top else top,
        )

    def _media(self, message: Message) -> Any:
        if message.file is not None:
            return render_media.media(message.file, message.date, self._dc_id)
        return None if message.poll is None else render_media.poll(message.poll)


def _action(channel: Channel, service: Service | None) -> Any:
    if service is None:
        raise ValueError("not a service message")
    match service.action:
        case "pin":
            return types.MessageActionPinMessage()
        case "title":
            return types.MessageActionChatEditTitle(service.title or channel.title)
        case "photo":
            return types.MessageActionChatEditPhoto(types.PhotoEmpty(0))
        case "created":
            return types.MessageActionChannelCreate(service.title or channel.title)
        case "topic":
            return types.MessageActionTopicCreate(service.title or "", ICON_COLOUR)
        case other:
            raise ValueError(f"unknown service action {other!r}")


def _forward(message: Message) -> Any:
    forward = message.forward
    if forward is None:
        return None
    return types.MessageFwdHeader(
        date=forward.date,
        from_id=types.PeerChannel(forward.channel_id),
        channel_post=forward.message_id,
        post_author=forward.author,
    )


def _replies(channel: Channel, message: Message) -> Any:
    if channel.group or channel.linked_id is None:
        return None
    return types.MessageReplies(
        replies=message.counters.replies, replies_pts=0, comments=True, channel_id=channel.linked_id
    )


def _reactions(counts: dict[str, int]) -> Any:
    if not counts:
        return None
    results = [types.ReactionCount(types.ReactionEmoji(emoji), count) for emoji, count in counts.items()]
    return types.MessageReactions(results=results)
