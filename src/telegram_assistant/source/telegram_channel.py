"""A channel as an account of Telegram reads it: a `Source`; and channels as Telegram describes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Protocol

from telethon.tl import functions, types

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.post import Media, Post
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import (
    PAGE_LIMIT,
    Changes,
    ChannelInfo,
    Forum,
    Hidden,
    Name,
    Page,
    Peer,
    Source,
    SourceError,
)
from telegram_assistant.domain.text import clean_text
from telegram_assistant.source.telegram_errors import FileElsewhere, NoSuchMessage, UnreadableAnswer
from telegram_assistant.source.telegram_media import PIECE, FileLocation, read_file
from telegram_assistant.source.telegram_messages import messages_of
from telegram_assistant.source.telegram_pages import read_ids, read_page
from telegram_assistant.source.telegram_topics import read_topics
from telegram_assistant.source.telegram_updates import changes_of

HIDDEN_SECONDS = 3600.0
SKIP_UNREADABLE = 3  # messages at the top that cannot be parsed
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MOMENT = datetime(2038, 1, 19, tzinfo=UTC)  # later ones do not fit Telegram's 32 bits


class Account(Protocol):
    """What a channel needs of the account that reads it."""

    hidden: dict[int, tuple[float, int]]  # by group: until when this holds, and up to which id

    @property
    def account_id(self) -> str: ...

    async def ask(self, request: Any, *, dc_id: int | None = None) -> Any: ...


class TelegramChannel(Source):
    """Requests over MTProto, each through the account's budget."""

    def __init__(self, account: Account, peer: Peer, takeout: int | None = None) -> None:
        self._account = account
        self._takeout = takeout
        self._known_as = peer
        self._peer = types.InputPeerChannel(peer.channel_id, peer.access_hash)
        self._channel = types.InputChannel(peer.channel_id, peer.access_hash)

    @property
    def channel_id(self) -> int:
        return self._known_as.channel_id

    async def describe(self) -> ChannelInfo:
        return full_channel(
            await self._account.ask(functions.channels.GetFullChannelRequest(self._channel)), self._known_as
        )

    async def page_after(self, after_id: int, limit: int = PAGE_LIMIT, *, unreadable: Collection[int] = ()) -> Page:
        name: Name | None = None
        hidden: Hidden | None = None
        pts: int | None = None

        # Telegram leaves out what is not below this id, and so the message that would spoil the page.
        stop = min((message_id for message_id in unreadable if message_id > after_id), default=0)

        async def ask(after: int, count: int, also_that: bool) -> Any:
            nonlocal name, hidden, pts
            window = _oldest_after(after, count, also_that=also_that and after not in unreadable, below=stop)
            answer = await self._history(**window)
            name = name_in(answer.chats, self.channel_id) or name
            hidden = await self._hidden_in(answer.chats)
            pts = pts or getattr(answer, "pts", None)  # the first: what changes later is told as a change
            return answer

        async def ask_below(after: int, below: int) -> Any:
            return await self._history(**_oldest_after(after, 1, also_that=False, below=min(below, stop or below)))

        page = await read_page(ask, ask_below, after_id, limit)
        if stop and page.reached_end:  # of what lies below
            page = replace(page, reached_end=False, unreadable=(*page.unreadable, stop), complete=True)
        return replace(page, name=name, hidden=hidden, pts=pts)

    async def changes_since(self, pts: int) -> Changes:
        """As `Source` says. Works without having joined, for a public channel."""
        request = functions.updates.GetChannelDifferenceRequest(
            self._channel, types.ChannelMessagesFilterEmpty(), pts, PAGE_LIMIT, force=False
        )
        return changes_of(await self._account.ask(request))

    async def page_before(self, before_id: int, limit: int = PAGE_LIMIT, *, above: int = 0) -> Page | None:
        try:
            found = messages_of(await self._history(before_id, None, 0, limit, 0, above, 0))
        except UnreadableAnswer:
            return None
        return Page(found.posts, reached_end=False, unreadable=found.unreadable)

    async def comments_after(self, post_message_id: int, after_id: int, limit: int = PAGE_LIMIT) -> Page:
        async def ask(after: int, count: int, also_that: bool) -> Any:
            window = _oldest_after(after, count, also_that=also_that)
            return await self._account.ask(functions.messages.GetRepliesRequest(self._peer, post_message_id, **window))

        async def ask_below(after: int, below: int) -> Any:
            window = _oldest_after(after, 1, also_that=False, below=below)
            return await self._account.ask(functions.messages.GetRepliesRequest(self._peer, post_message_id, **window))

        try:
            return await read_page(ask, ask_below, after_id, limit)
        except NoSuchMessage:
            return Page((), reached_end=True)

    async def forum(self) -> Forum | None:
        """As `Source` says. A channel's answer describes its discussion group too, with the hash that this needs."""
        answer = await self._account.ask(functions.channels.GetFullChannelRequest(self._channel))
        wanted = {self.channel_id, answer.full_chat.linked_chat_id}
        groups = [chat for chat in answer.chats if chat.id in wanted and getattr(chat, "forum", False)]
        if not groups:
            return None
        peer = types.InputPeerChannel(groups[0].id, groups[0].access_hash)
        return Forum(peer.channel_id, await read_topics(self._account.ask, peer))

    async def last_id_before(self, moment: datetime) -> int:
        limit = min(as_utc(moment), _LAST_MOMENT)
        if limit <= _EPOCH + timedelta(seconds=1):
            return 0  # 0 means "no date" to Telegram, which would answer with the newest message
        post = await self._newest_before(limit)
        if post is None:
            return 0
        return post.message_id if post.posted_at < moment else post.message_id - 1

    async def by_ids(self, ids: Collection[int]) -> dict[int, Post | None]:
        """As `Source` says; an id whose message could not be understood is left out, and logged."""
        if len(ids) > PAGE_LIMIT:
            raise ValueError(f"at most {PAGE_LIMIT} messages can be read by id at once, not {len(ids)}")
        if not ids:
            return {}
        hidden = 0

        async def ask(some: Sequence[int]) -> Any:
            nonlocal hidden
            wanted = [types.InputMessageID(message_id) for message_id in some]
            answer = await self._account.ask(functions.channels.GetMessagesRequest(self._channel, wanted))
            found = await self._hidden_in(answer.chats)
            hidden = found.up_to if found else 0
            return answer

        told = (await read_ids(ask, sorted(ids))).found
        # Of what is hidden from us Telegram says that it is empty, and we must not.
        return {one: post for one, post in told.items() if post is not None or one > hidden}

    async def download(self, message_id: int, media: Media) -> AsyncGenerator[bytes, None]:
        """As `Source` says. GONE: the message is deleted, or has another file now."""
        at: int | None = None  # the data centre, once one sent us there

        async def ask(location: FileLocation, offset: int) -> bytes:
            nonlocal at
            request = functions.upload.GetFileRequest(location.as_input(), offset, PIECE)
            try:
                answer = await self._account.ask(request, dc_id=at or location.dc_id)
            except FileElsewhere as exc:
                if at is not None:
                    raise
                at = exc.dc_id
                answer = await self._account.ask(request, dc_id=at)
            data: bytes = answer.bytes
            return data

        async def renew() -> FileLocation:
            post = (await self.by_ids([message_id])).get(message_id)
            for one in post.media if post is not None else ():
                if one.file_id == media.file_id and isinstance(one.reference, FileLocation):
                    return one.reference
            raise SourceError(Failure.GONE, f"message {message_id} has this file no more")

        known = media.reference if isinstance(media.reference, FileLocation) else None
        async for piece in read_file(ask, renew, known, media.size):
            yield piece

    async def _history(self, *window: Any, **named: Any) -> Any:
        request = functions.messages.GetHistoryRequest(self._peer, *window, **named)
        if self._takeout is not None:
            request = functions.InvokeWithTakeoutRequest(self._takeout, request)
        return await self._account.ask(request)

    async def _hidden_in(self, chats: Collection[Any]) -> Hidden | None:
        """What a group hides from this account; asked for once in a while, for its owner may change it."""
        if not is_group(chats, self.channel_id):
            return None
        until, up_to = self._account.hidden.get(self.channel_id, (0.0, 0))
        if until < monotonic():
            answer = await self._account.ask(functions.channels.GetFullChannelRequest(self._channel))
            up_to = answer.full_chat.available_min_id or 0
            self._account.hidden[self.channel_id] = monotonic() + HIDDEN_SECONDS, up_to
        return Hidden(self._account.account_id, up_to)

    async def _newest_before(self, moment: datetime) -> Post | None:
        """One that cannot be parsed must not hide the rest."""
        error: UnreadableAnswer | None = None
        for skip in range(SKIP_UNREADABLE + 1):
            try:
                found = messages_of(await self._history(0, moment, skip, 1, 0, 0, 0))
            except UnreadableAnswer as exc:
                error = exc
                continue
            if found.posts or not found.ids:
                return found.posts[0] if found.posts else None
        raise error or SourceError(
            Failure.FATAL, f"the newest messages of channel {self.channel_id} are all unreadable"
        )


def _oldest_after(after_id: int, limit: int, *, also_that: bool, below: int = 0) -> dict[str, Any]:
    """Telegram counts from the newest: the page that ends just above an id.

    At the newest end Telegram fills the page up with older messages. `min_id` lets only the message `after_id`
    itself through: it shows that the end was reached, and the others are not sent for nothing.
    """
    return {
        "offset_id": after_id + 1,
        "offset_date": None,
        "add_offset": -limit,
        "limit": limit,
        "max_id": below,
        "min_id": max(0, after_id - 1) if also_that else after_id,
        "hash": 0,
    }


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
