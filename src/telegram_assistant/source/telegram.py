"""One account's view of Telegram, read over MTProto: a `Source` by shape."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Protocol, Self

from telethon.tl import functions, types

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.post import Media, Post
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import (
    PAGE_LIMIT,
    Changes,
    ChannelInfo,
    Hidden,
    Interrupted,
    LiveUpdate,
    Name,
    Page,
    Peer,
    SourceError,
)
from telegram_assistant.freshness import Freshness, Rule
from telegram_assistant.log import nothing_bound
from telegram_assistant.source.telegram_channels import (
    full_channel,
    invited_channel,
    is_group,
    name_in,
    resolved_channel,
)
from telegram_assistant.source.telegram_client import AccountInfo, account_of, allowed_method
from telegram_assistant.source.telegram_errors import FileElsewhere, NoSuchMessage, UnreadableAnswer, translated
from telegram_assistant.source.telegram_media import PIECE, FileLocation, read_file
from telegram_assistant.source.telegram_messages import messages_of
from telegram_assistant.source.telegram_pages import read_ids, read_page
from telegram_assistant.source.telegram_updates import Inbox, changes_of

REQUEST_SECONDS = 30.0
HIDDEN_SECONDS = 3600.0
CONNECT_SECONDS = 30.0  # all attempts, and the handshake
SKIP_UNREADABLE = 3  # messages at the top that cannot be parsed
METHOD = Rule(
    within=60.0,
    what="is not answered by Telegram",
    cost="what needs this request waits",
    remedy="it is tried again by itself; if it lasts, look at the log for what Telegram says",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MOMENT = datetime(2038, 1, 19, tzinfo=UTC)  # later ones do not fit Telegram's 32 bits


class Gate(Protocol):
    """An account's budget: waits before a request until it may be made, and hears of floods."""

    async def __call__(self, method: str) -> None: ...

    async def flooded(self, method: str, seconds: float) -> None: ...


class TelegramSource:
    """Reads with a client of `open_client`, and owns it from then on. Connects when first asked, and again after."""

    def __init__(
        self,
        client: Any,
        account_id: str,
        *,
        request_timeout: float = REQUEST_SECONDS,
        gate: Gate | None = None,
        freshness: Freshness | None = None,
    ) -> None:
        self._client = client
        self._kind = "listener" if client.receives_updates else "account"
        self._freshness = freshness or Freshness()
        self._account_id = account_id
        self._timeout = request_timeout
        self._gate = gate
        self._connecting = asyncio.Lock()
        self._me: AccountInfo | None = None  # known while the connection is good
        self._closed = False
        self._hidden: dict[int, tuple[float, int]] = {}  # by group: until when this holds, and up to which id

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def account_id(self) -> str:
        return self._account_id

    async def connect(self) -> None:
        """Connect and check that the account may be used. Nothing happens where it is connected."""
        await self.me()

    async def close(self) -> None:
        """Disconnect. Requests under way end with SourceError."""
        self._closed = True
        await self._disconnect()

    async def me(self) -> AccountInfo:
        """Whose account this is."""
        async with self._connecting:
            if self._closed:
                raise SourceError(Failure.TRANSIENT, "the connection to Telegram was closed")
            if self._me is None or not self._client.is_connected():
                self._me = None
                self._me = await self._connect()
            return self._me

    async def heartbeat(self) -> datetime:
        """Ask for next to nothing, so that silence is known to be silence. What time it is for Telegram."""
        await self._ask(functions.updates.GetStateRequest())
        time: datetime = self._client.server_time
        return time

    async def resolve(self, ref: ChannelRef) -> ChannelInfo:
        if ref.username is not None:
            return resolved_channel(await self._ask(functions.contacts.ResolveUsernameRequest(ref.username)), ref)
        if ref.invite is not None:
            return invited_channel(await self._ask(functions.messages.CheckChatInviteRequest(ref.invite)), ref)
        raise SourceError(
            Failure.CHANNEL_PRIVATE,
            f"Telegram finds no channel by its number alone ({ref}): give its username or an invite link",
        )

    async def describe(self, peer: Peer) -> ChannelInfo:
        return full_channel(await self._ask(functions.channels.GetFullChannelRequest(_channel(peer))), peer)

    async def page_after(
        self, peer: Peer, after_id: int, limit: int = PAGE_LIMIT, *, unreadable: Collection[int] = ()
    ) -> Page:
        name: Name | None = None
        hidden: Hidden | None = None
        pts: int | None = None

        # Telegram leaves out what is not below this id, and so the message that would spoil the page.
        stop = min((message_id for message_id in unreadable if message_id > after_id), default=0)

        async def ask(after: int, count: int, also_that: bool) -> Any:
            nonlocal name, hidden, pts
            window = _oldest_after(after, count, also_that=also_that and after not in unreadable, below=stop)
            answer = await self._ask(functions.messages.GetHistoryRequest(_peer(peer), **window))
            name = name_in(answer.chats, peer.channel_id) or name
            hidden = await self._hidden_in(peer, answer.chats)
            pts = pts or getattr(answer, "pts", None)  # the first: what changes later is told as a change
            return answer

        async def ask_below(after: int, below: int) -> Any:
            window = _oldest_after(after, 1, also_that=False, below=min(below, stop or below))
            return await self._ask(functions.messages.GetHistoryRequest(_peer(peer), **window))

        page = await read_page(ask, ask_below, after_id, limit)
        if stop and page.reached_end:  # of what lies below
            page = replace(page, reached_end=False, unreadable=(*page.unreadable, stop), complete=True)
        return replace(page, name=name, hidden=hidden, pts=pts)

    async def changes_since(self, peer: Peer, pts: int) -> Changes:
        """As `Source` says. Works without having joined, for a public channel."""
        request = functions.updates.GetChannelDifferenceRequest(
            _channel(peer), types.ChannelMessagesFilterEmpty(), pts, PAGE_LIMIT, force=False
        )
        return changes_of(await self._ask(request))

    async def page_before(self, peer: Peer, before_id: int, limit: int = PAGE_LIMIT, *, above: int = 0) -> Page | None:
        request = functions.messages.GetHistoryRequest(_peer(peer), before_id, None, 0, limit, 0, above, 0)
        try:
            found = messages_of(await self._ask(request))
        except UnreadableAnswer:
            return None
        return Page(found.posts, reached_end=False, unreadable=found.unreadable)

    async def comments_after(self, peer: Peer, post_message_id: int, after_id: int, limit: int = PAGE_LIMIT) -> Page:
        async def ask(after: int, count: int, also_that: bool) -> Any:
            window = _oldest_after(after, count, also_that=also_that)
            return await self._ask(functions.messages.GetRepliesRequest(_peer(peer), post_message_id, **window))

        async def ask_below(after: int, below: int) -> Any:
            window = _oldest_after(after, 1, also_that=False, below=below)
            return await self._ask(functions.messages.GetRepliesRequest(_peer(peer), post_message_id, **window))

        try:
            return await read_page(ask, ask_below, after_id, limit)
        except NoSuchMessage:
            return Page((), reached_end=True)

    async def newest(self, peer: Peer) -> Post | None:
        return await self._top(peer, None)

    async def last_id_before(self, peer: Peer, moment: datetime) -> int:
        limit = min(as_utc(moment), _LAST_MOMENT)
        if limit <= _EPOCH + timedelta(seconds=1):
            return 0  # 0 means "no date" to Telegram, which would answer with the newest message
        post = await self._top(peer, limit)
        if post is None:
            return 0
        return post.message_id if post.posted_at < moment else post.message_id - 1

    async def by_ids(self, peer: Peer, ids: Collection[int]) -> dict[int, Post | None]:
        """As `Source` says; an id whose message could not be understood is left out, and logged."""
        if len(ids) > PAGE_LIMIT:
            raise ValueError(f"at most {PAGE_LIMIT} messages can be read by id at once, not {len(ids)}")
        if not ids:
            return {}
        hidden = 0

        async def ask(some: Sequence[int]) -> Any:
            nonlocal hidden
            answer = await self._ids_asker(peer)(some)
            found = await self._hidden_in(peer, answer.chats)
            hidden = found.up_to if found else 0
            return answer

        told = (await read_ids(ask, sorted(ids))).found
        # Of what is hidden from us Telegram says that it is empty, and we must not.
        return {one: post for one, post in told.items() if post is not None or one > hidden}

    async def download(self, peer: Peer, message_id: int, media: Media) -> AsyncGenerator[bytes, None]:
        """As `Source` says. GONE: the message is deleted, or has another file now."""
        at: int | None = None  # the data centre, once one sent us there

        async def ask(location: FileLocation, offset: int) -> bytes:
            nonlocal at
            request = functions.upload.GetFileRequest(location.as_input(), offset, PIECE)
            try:
                answer = await self._ask(request, dc_id=at or location.dc_id)
            except FileElsewhere as exc:
                if at is not None:
                    raise
                at = exc.dc_id
                answer = await self._ask(request, dc_id=at)
            data: bytes = answer.bytes
            return data

        async def renew() -> FileLocation:
            post = (await self.by_ids(peer, [message_id])).get(message_id)
            for one in post.media if post is not None else ():
                if one.file_id == media.file_id and isinstance(one.reference, FileLocation):
                    return one.reference
            raise SourceError(Failure.GONE, f"message {message_id} has this file no more")

        known = media.reference if isinstance(media.reference, FileLocation) else None
        async for piece in read_file(ask, renew, known, media.size):
            yield piece

    async def updates(self) -> AsyncGenerator[LiveUpdate, None]:
        """As `Source` says. The first is always Interrupted: what happened before is not known here."""
        client = self._client
        if not client.receives_updates or client.listener is not None:
            raise RuntimeError("updates need a client of their own, opened with purpose 'live'")
        inbox = Inbox()
        client.listener = inbox  # before connecting, so that nothing falls in between
        connection: asyncio.Future[Any] | None = None
        try:
            await self.connect()
            connection = client.disconnected
            connection.add_done_callback(inbox.disconnected)
            yield Interrupted(None)
            while True:
                yield await inbox.next()
        finally:
            client.listener = None
            if connection is not None:
                connection.cancel()  # ours alone: it shields Telethon's

    async def _connect(self) -> AccountInfo:
        client = self._client
        try:
            with nothing_bound(), self._tried(), translated("connecting to Telegram"):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._disconnect()  # ends the tasks that a lost connection left behind
                    await client.connect()
                    users = await client(functions.users.GetUsersRequest([types.InputUserSelf()]))
                    return account_of(users[0])
        except BaseException:
            # Telethon calls itself connected although connecting failed halfway.
            with suppress(asyncio.CancelledError):
                await self._disconnect()
            raise

    async def _disconnect(self) -> None:
        self._client.disconnected.add_done_callback(_look_at)
        await self._client.disconnect()

    async def _ask(self, request: Any, *, dc_id: int | None = None) -> Any:
        method = allowed_method(request)
        await self.connect()
        if self._gate is not None:
            await self._gate(method)
        try:
            with self._tried(method), translated(method):
                async with asyncio.timeout(self._timeout):
                    if dc_id is None or dc_id == self._client.session.dc_id:
                        return await self._client(request)
                    return await self._client.ask_at(dc_id, request)
        except SourceError as exc:
            if self._gate is not None and exc.flood_seconds is not None:
                await self._gate.flooded(method, exc.flood_seconds)
            raise

    @contextmanager
    def _tried(self, method: str | None = None) -> Iterator[None]:
        """For health: when this connection last answered, and a method of it. A refusal is an answer too."""
        with self._freshness.trying(self._kind, self._account_id, answered=_is_answer):
            if method is None or self._kind != "account":
                yield
                return
            name = f"{method} of {self._account_id}"
            self._freshness.watch("method", name, replace(METHOD, part_of=(self._kind, self._account_id)))
            with self._freshness.trying("method", name, answered=_is_answer):
                yield

    async def _hidden_in(self, peer: Peer, chats: Collection[Any]) -> Hidden | None:
        """What a group hides from this account; asked for once in a while, for its owner may change it."""
        if not is_group(chats, peer.channel_id):
            return None
        until, up_to = self._hidden.get(peer.channel_id, (0.0, 0))
        if until < monotonic():
            answer = await self._ask(functions.channels.GetFullChannelRequest(_channel(peer)))
            up_to = answer.full_chat.available_min_id or 0
            self._hidden[peer.channel_id] = monotonic() + HIDDEN_SECONDS, up_to
        return Hidden(self._account_id, up_to)

    def _ids_asker(self, peer: Peer) -> Any:
        async def ask(ids: Sequence[int]) -> Any:
            wanted = [types.InputMessageID(message_id) for message_id in ids]
            return await self._ask(functions.channels.GetMessagesRequest(_channel(peer), wanted))

        return ask

    async def _top(self, peer: Peer, before: datetime | None) -> Post | None:
        """The newest message (before a moment); one that cannot be parsed must not hide the rest."""
        error: UnreadableAnswer | None = None
        for skip in range(SKIP_UNREADABLE + 1):
            request = functions.messages.GetHistoryRequest(_peer(peer), 0, before, skip, 1, 0, 0, 0)
            try:
                found = messages_of(await self._ask(request))
            except UnreadableAnswer as exc:
                error = exc
                continue
            if found.posts or not found.ids:
                return found.posts[0] if found.posts else None
        raise error or SourceError(
            Failure.FATAL, f"the newest messages of channel {peer.channel_id} are all unreadable"
        )


def _is_answer(exc: Exception) -> bool:
    return isinstance(exc, SourceError) and exc.failure is not Failure.TRANSIENT


def _look_at(ended: asyncio.Future[Any]) -> None:
    """Asyncio complains of an exception that was not looked at; ours was raised elsewhere already."""
    if not ended.cancelled():
        ended.exception()


def _peer(peer: Peer) -> Any:
    return types.InputPeerChannel(peer.channel_id, peer.access_hash)


def _channel(peer: Peer) -> Any:
    return types.InputChannel(peer.channel_id, peer.access_hash)


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
