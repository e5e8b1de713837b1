"""Telethon's client as we want it: reads only, never waits or retries by itself, hands updates on as they come."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import signature
from struct import Struct
from typing import Any, Literal, Protocol

from telethon import TelegramClient
from telethon import __version__ as telethon_version
from telethon.crypto import rsa
from telethon.extensions import BinaryReader
from telethon.sessions import StringSession
from telethon.tl import functions, types
from telethon.tl.alltlobjects import LAYER, tlobjects

from telegram_assistant import __version__
from telegram_assistant.config import TelegramServer
from telegram_assistant.domain.proxies import Proxy
from telegram_assistant.errors import Fatal
from telegram_assistant.log import nothing_bound
from telegram_assistant.source.telegram_messages import user_name
from telegram_assistant.source.telegram_proxy import Route, connection_through

CONNECT_SECONDS = 10  # one attempt
CONNECTION_RETRIES = 3
RETRY_DELAY = 0.5
CHECK_SECONDS = 30.0

# Everything that a reading client may ever ask. The second part is what connecting costs.
READING = frozenset(
    {
        "channels.getFullChannel",
        "channels.getMessages",
        "contacts.resolveUsername",
        "chatlists.checkChatlistInvite",
        "messages.checkChatInvite",
        "messages.getDialogFilters",
        "messages.getDialogs",
        "messages.getForumTopics",
        "messages.getHistory",
        "messages.getReplies",
        "updates.getChannelDifference",
        "upload.getFile",
        "users.getUsers",
    }
    | {
        "auth.exportAuthorization",  # to fetch a file from the data centre that has it
        "help.getConfig",
        "updates.getDifference",
        "updates.getState",
    }
    | {  # a large history with wider limits; all that a takeout changes is that it begins and ends
        "account.initTakeoutSession",
        "invokeWithTakeout(messages.getHistory)",
        "invokeWithTakeout(account.finishTakeoutSession)",
    }
)

# Who parses the answers: what one version cannot read, another may.
READER = f"telethon {telethon_version}, layer {LAYER}"

Purpose = Literal["read", "live", "login"]
LONG_STRING = 254  # the first byte of one whose length is in the next three
# Telethon puts each message into a class with many conveniences, which cost more than the message; we use none.
(_PLAIN,) = (kind for kind in types.Message.__mro__ if kind.__module__ == types.__name__)
_KINDS = {**tlobjects, _PLAIN.CONSTRUCTOR_ID: _PLAIN}
_signed = Struct("<i").unpack_from
_unsigned = Struct("<I").unpack_from
_signed_long = Struct("<q").unpack_from
_unsigned_long = Struct("<Q").unpack_from
_two_signed = Struct("<ii").unpack_from
_two_unsigned = Struct("<II").unpack_from
_EMOJI = types.ReactionEmoji.CONSTRUCTOR_ID


class Listener(Protocol):
    """Takes the updates of a live client."""

    def received(self, updates: Any) -> None: ...

    def reconnected(self, error: Exception | None) -> None:
        """The connection was lost and is there again; with an error, it is but this account cannot use it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountInfo:
    """Whose account it is; the phone only as far as needed to tell accounts apart."""

    id: int
    name: str
    username: str | None = None
    phone: str | None = None  # masked


def account_of(user: Any) -> AccountInfo:
    phone = user.phone
    return AccountInfo(
        id=user.id,
        name=user_name(user),
        username=user.username.lower() if user.username else None,
        phone=f"+{phone[:2]}{'•' * max(0, len(phone) - 4)}{phone[-2:]}" if phone else None,
    )


def allowed_method(request: Any) -> str:
    """The request's name, if it is on the list; anything else is a mistake of ours."""
    method = method_name(request)
    if method not in READING:
        raise RuntimeError(f"{method} is not on the list of methods that only read")
    return method


def method_name(request: Any) -> str:
    """A request's name as Telegram's documentation has it, such as `messages.getHistory`; in a takeout with both."""
    if isinstance(request, functions.InvokeWithTakeoutRequest):
        return f"invokeWithTakeout({method_name(request.query)})"
    kind = type(request)
    topic = kind.__module__.rpartition(".")[2]
    name = kind.__name__.removesuffix("Request")
    name = name[:1].lower() + name[1:]
    return name if topic == "functions" else f"{topic}.{name}"


class ReadingClient(TelegramClient):  # type: ignore[misc] # telethon ships no types
    """Replaces what Telethon does on its own by less.

    Its `__call__` sleeps two seconds after an error of Telegram, and refuses a method for every channel after a flood
    in one; the account's budget and the caller's retries do that better. Its update loop drops edits and deletions
    after a gap, and forgets channels without a word; here every update is handed on, and gaps are the listener's.
    """

    listener: Listener | None = None

    @property
    def receives_updates(self) -> bool:
        return not self._no_updates

    @property
    def route(self) -> Route | None:
        """The proxy that it goes through; None: it connects directly."""
        route: Route | None = self._proxy
        return route

    @property
    def server_time(self) -> datetime:
        """When Telegram sent its last message to us, by its own clock: every message carries that in its number."""
        return datetime.fromtimestamp(self._sender._state._highest_remote_id >> 32, UTC)  # noqa: SLF001 - Telethon tells it nowhere else

    async def __call__(self, request: Any, ordered: bool = False, flood_sleep_threshold: int | None = None) -> Any:
        del ordered, flood_sleep_threshold
        return await self._send(self._sender, request)

    async def ask_at(self, dc_id: int, request: Any) -> Any:
        """Ask another data centre, over a connection that Telethon keeps for a while."""
        with nothing_bound():
            sender = await self._borrow_exported_sender(dc_id)
        try:
            return await self._send(sender, request)
        finally:
            await self._return_exported_sender(sender)

    async def _send(self, sender: Any, request: Any) -> Any:
        allowed_method(request)
        return await sender.send(QuickRequest(request) if self._no_updates else request)

    async def _update_loop(self) -> None:
        while True:
            updates = await self._updates_queue.get()
            if self.listener is not None:
                self.listener.received(updates)

    async def _handle_auto_reconnect(self) -> None:
        error: Exception | None = None
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                # Without a request of an account Telegram sends no updates to a new connection.
                await self(functions.users.GetUsersRequest([types.InputUserSelf()]))
        except Exception as exc:  # noqa: BLE001 - the listener raises it where it is awaited
            error = exc
        if self.listener is not None:
            self.listener.reconnected(error)


def open_client(
    *,
    api_id: int,
    api_hash: str,
    session: str = "",
    server: TelegramServer | None = None,
    rsa_key_pem: str | None = None,
    purpose: Purpose = "read",
    proxy: Proxy | None = None,
) -> Any:
    """A client that is not connected yet. Updates come to a `live` one only; only `login` may sign in."""
    kept = _session(session)
    if server is not None:
        kept.set_dc(server.dc_id, _ip_address(server.host), server.port)
    if rsa_key_pem is not None:
        _trust(rsa_key_pem)
    make: Callable[..., Any] = TelegramClient if purpose == "login" else ReadingClient
    return make(
        kept,
        api_id,
        api_hash,
        use_ipv6=":" in (kept.server_address or ""),
        timeout=CONNECT_SECONDS,
        request_retries=1,  # of a login: the second attempt goes to the account's own data centre
        connection_retries=CONNECTION_RETRIES,
        retry_delay=RETRY_DELAY,
        flood_sleep_threshold=0,
        raise_last_call_error=True,
        receive_updates=purpose != "read",
        device_model="Telegram Assistant",
        app_version=__version__,
        **connection_through(proxy),
    )


def _session(text: str) -> Any:
    try:
        session = StringSession(text.strip())
    except (ValueError, struct.error) as exc:
        raise Fatal("this is not a Telethon string session; make one with `tga login`") from exc
    # Telethon would remember every user that ever commented, for ever. We carry access hashes ourselves.
    session.process_entities = lambda _answer: None
    return session


def _ip_address(host: str) -> str:
    """A string session can only hold a number."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.gethostbyname(host)
    except OSError as exc:
        raise Fatal(f"the Telegram server {host!r} cannot be found: {exc}") from exc


def _trust(pem: str) -> None:
    try:
        rsa.add_key(pem, old=False)
    except Exception as exc:  # each layer of the parser raises its own
        raise Fatal(f"TELEGRAM_RSA_KEY is not a public RSA key in PEM (PKCS#1): {exc}") from exc


class QuickReader(BinaryReader):  # type: ignore[misc] # telethon ships no types
    """Only what every message needs is here; the rest is inherited."""

    stream: bytes
    position: int

    def read_int(self, signed: bool = True) -> int:
        at = self.position
        self.position = at + 4
        value: int = (_signed if signed else _unsigned)(self.stream, at)[0]
        return value

    def read_long(self, signed: bool = True) -> int:
        at = self.position
        self.position = at + 8
        value: int = (_signed_long if signed else _unsigned_long)(self.stream, at)[0]
        return value

    def tgread_bytes(self) -> bytes:
        at = self.position
        start, length = at + 1, self.stream[at]
        if length == LONG_STRING:
            start, length = at + 4, int.from_bytes(self.stream[start : at + 4], "little")
        end = start + length
        data = self.stream[start:end]
        if len(data) != length:
            raise BufferError(f"a string of {length} bytes ends after {len(data)}")
        self.position = end + (at - end) % 4  # filled up to a multiple of four
        return data

    def tgread_string(self) -> str:
        return self.tgread_bytes().decode("utf-8", "replace")

    def tgread_date(self) -> datetime:
        return datetime.fromtimestamp(self.read_int(), UTC)

    def tgread_object(self) -> Any:
        read = _READERS.get(_unsigned(self.stream, self.position)[0])
        if read is None:  # a boolean, a list, or something unknown
            return super().tgread_object()
        self.position += 4
        return read(self)


def _place_reader(kind: Any) -> Callable[[QuickReader], Any]:
    """For what is only a place in a text, as most entities are: both numbers at once."""

    def read(reader: QuickReader) -> Any:
        at = reader.position
        reader.position = at + 8
        offset, length = _two_signed(reader.stream, at)
        return kind(offset, length)

    return read


def _read_reaction_count(reader: QuickReader) -> Any:
    """In one go when it is the usual: no flags, and an emoji. A post has a handful of these."""
    stream, at = reader.stream, reader.position
    flags, reaction = _two_unsigned(stream, at)
    start = at + 9
    end = start + stream[at + 8]
    if flags or reaction != _EMOJI or end - start >= LONG_STRING:
        return types.ReactionCount.from_reader(reader)
    count_at = end + (at - end) % 4
    (count,) = _signed(stream, count_at)
    reader.position = count_at + 4
    return types.ReactionCount(types.ReactionEmoji(stream[start:end].decode("utf-8", "replace")), count)


_READERS: dict[int, Callable[[QuickReader], Any]] = {
    **{id_: kind.from_reader for id_, kind in _KINDS.items()},
    **{
        kind.CONSTRUCTOR_ID: _place_reader(kind)
        for kind in tlobjects.values()
        if kind.__name__.startswith("MessageEntity") and list(signature(kind).parameters) == ["offset", "length"]
    },
    types.ReactionCount.CONSTRUCTOR_ID: _read_reaction_count,
}


class QuickRequest(functions.InvokeWithoutUpdatesRequest):  # type: ignore[misc] # telethon ships no types
    """A request whose answer is read quickly, and after which Telegram sends no updates over this connection."""

    @staticmethod
    def read_result(reader: Any) -> Any:
        return QuickReader(reader.get_bytes()).tgread_object()
