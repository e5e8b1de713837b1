"""Channels as Telegram describes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from telethon.tl import types

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, Name, Peer, SourceError
from telegram_assistant.domain.text import clean_text


def resolved_channel(answer: Any, ref: ChannelRef) -> ChannelInfo:
    """What contacts.resolveUsername found."""
    if not isinstance(answer.peer, types.PeerChannel):
        raise SourceError(Failure.GONE, f"{ref} is a person or a bot, not a channel")
    return channel_info(_chat(answer.chats, answer.peer.channel_id, str(ref)), str(ref))


def invited_channel(answer: Any, ref: ChannelRef) -> ChannelInfo:
    """What messages.checkChatInvite said of an invite link."""
    match answer:
        case types.ChatInviteAlready(chat=chat) | types.ChatInvitePeek(chat=chat):
            return channel_info(chat, str(ref))
        case _:
            raise SourceError(
                Failure.CHANNEL_PRIVATE,
                f"{ref} leads to {clean_text(answer.title)!r}, which this account has not joined: "
                "join it in Telegram first",
            )


def full_channel(answer: Any, peer: Peer) -> ChannelInfo:
    """What channels.getFullChannel said."""
    full = answer.full_chat
    return channel_info(
        _chat(answer.chats, peer.channel_id, f"channel {peer.channel_id}"),
        f"channel {peer.channel_id}",
        access_hash=peer.access_hash,
        about=clean_text(full.about or ""),
        subscribers=full.participants_count,
        linked_id=full.linked_chat_id,
    )


def channel_info(
    chat: Any,
    called: str,
    *,
    access_hash: int | None = None,
    about: str = "",
    subscribers: int | None = None,
    linked_id: int | None = None,
) -> ChannelInfo:
    if isinstance(chat, types.ChannelForbidden):
        raise SourceError(Failure.CHANNEL_PRIVATE, f"{called} is private, or this account was banned from it")
    if not isinstance(chat, types.Channel):
        raise SourceError(Failure.GONE, f"{called} is a small group of the old kind, not a channel")
    username = _username(chat)
    return ChannelInfo(
        id=chat.id,
        title=clean_text(chat.title),
        username=username,
        access_hash=access_hash if access_hash is not None else chat.access_hash or 0,
        about=about,
        is_group=bool(chat.megagroup or chat.gigagroup),
        is_private=username is None,
        subscribers=subscribers if subscribers is not None else chat.participants_count,
        linked_id=linked_id,
    )


def name_in(chats: Iterable[Any], channel_id: int) -> Name | None:
    """What the channel is called, if an answer describes it fully."""
    for chat in chats:
        if isinstance(chat, types.Channel) and chat.id == channel_id and not chat.min:
            return Name(clean_text(chat.title), _username(chat), protected=bool(chat.noforwards))
    return None


def is_group(chats: Iterable[Any], channel_id: int) -> bool:
    """Only groups hide what was said before a member joined."""
    return any(chat.id == channel_id and getattr(chat, "megagroup", False) for chat in chats)


def _chat(chats: Iterable[Any], channel_id: int, called: str) -> Any:
    for chat in chats:
        if chat.id == channel_id:
            return chat
    raise SourceError(Failure.FATAL, f"Telegram found {called} but did not describe it")


def _username(chat: Any) -> str | None:
    """The name in t.me addresses; a channel with bought names has them in a list."""
    active = [one.username for one in chat.usernames or () if one.active]
    name = chat.username or (active[0] if active else None)
    return name.lower() if name else None
