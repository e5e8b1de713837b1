"""An account's connection to Telegram: it finds channels, reads them, and hears of what is new."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, Self

from telethon.tl import functions, types

from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import (
    ChannelInfo,
    Followed,
    Interrupted,
    LiveUpdate,
    Peer,
    SourceError,
)
from telegram_assistant.freshness import Freshness, Rule
from telegram_assistant.log import nothing_bound
from telegram_assistant.source.telegram_channel import TelegramChannel, invited_channel, resolved_channel
from telegram_assistant.source.telegram_client import AccountInfo, account_of, allowed_method
from telegram_assistant.source.telegram_errors import translated
from telegram_assistant.source.telegram_follows import followed_channels, shared_channels
from telegram_assistant.source.telegram_updates import Inbox

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


class TelegramAccount:
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
        self.hidden: dict[int, tuple[float, int]] = {}  # by group: until when this holds, and up to which id

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def account_id(self) -> str:
        return self._account_id

    @property
    def way(self) -> str:
        route = self._client.route
        return "directly" if route is None else f"through {route.proxy.shown}"

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
        await self.ask(functions.updates.GetStateRequest())
        time: datetime = self._client.server_time
        return time

    async def resolve(self, ref: ChannelRef) -> ChannelInfo:
        if ref.username is not None:
            return resolved_channel(await self.ask(functions.contacts.ResolveUsernameRequest(ref.username)), ref)
        if ref.invite is not None:
            return invited_channel(await self.ask(functions.messages.CheckChatInviteRequest(ref.invite)), ref)
        raise SourceError(
            Failure.CHANNEL_PRIVATE,
            f"Telegram finds no channel by its number alone ({ref}): give its username or an invite link",
        )

    async def followed(self, slug: str = "") -> list[Followed]:
        """The channels that this account has joined; with `slug` those of a shared folder."""
        return await (shared_channels(self, slug) if slug else followed_channels(self))

    def channel(self, peer: Peer, takeout: int | None = None) -> TelegramChannel:
        """A channel to read with this account; its history in a takeout, where one is given."""
        return TelegramChannel(self, peer, takeout)

    async def begin_takeout(self) -> int:
        """A session for the histories of channels and groups. Telegram tells all devices of the account of it."""
        request = functions.account.InitTakeoutSessionRequest(message_channels=True, message_megagroups=True)
        takeout_id: int = (await self.ask(request)).id
        return takeout_id

    async def finish_takeout(self, takeout_id: int, *, success: bool) -> None:
        finish = functions.account.FinishTakeoutSessionRequest(success=success)
        await self.ask(functions.InvokeWithTakeoutRequest(takeout_id, finish))

    async def updates(self) -> AsyncGenerator[LiveUpdate, None]:
        """Of the channels that this account has joined; ends only by cancellation or SourceError.

        The first is Interrupted(None), as soon as it listens: what happened before is not known.
        """
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
            with nothing_bound(), self._tried(), translated(f"connecting to Telegram {self.way}"):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._disconnect()  # ends the tasks that a lost connection left behind
                    await self._dial()
                    users = await client(functions.users.GetUsersRequest([types.InputUserSelf()]))
                    return account_of(users[0])
        except BaseException:
            # Telethon calls itself connected although connecting failed halfway.
            with suppress(asyncio.CancelledError):
                await self._disconnect()
            raise

    async def _dial(self) -> None:
        try:
            await self._client.connect()
        except ConnectionError as exc:
            route = self._client.route
            if route is None or route.trouble is None:
                raise
            raise ConnectionError(f"{route.trouble}; `tga doctor` tells which way works") from exc

    async def _disconnect(self) -> None:
        self._client.disconnected.add_done_callback(_look_at)
        await self._client.disconnect()

    async def ask(self, request: Any, *, dc_id: int | None = None) -> Any:
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


def _is_answer(exc: Exception) -> bool:
    return isinstance(exc, SourceError) and exc.failure is not Failure.TRANSIENT


def _look_at(ended: asyncio.Future[Any]) -> None:
    """Asyncio complains of an exception that was not looked at; ours was raised elsewhere already."""
    if not ended.cancelled():
        ended.exception()
