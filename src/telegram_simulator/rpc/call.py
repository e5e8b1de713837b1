"""What a request's handler gets: the server's parts, and who asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from telethon.tl import types

from telegram_simulator.errors import RpcError

if TYPE_CHECKING:
    from telegram_simulator.accounts import Accounts
    from telegram_simulator.index import Index
    from telegram_simulator.model import Channel, User
    from telegram_simulator.render import Renderer
    from telegram_simulator.takeouts import Takeouts
    from telegram_simulator.world import World


@dataclass(slots=True)
class Backend:
    """The parts that handlers work with."""

    world: World
    accounts: Accounts
    index: Index
    render: Renderer
    dc_id: int
    host: str
    port: int
    diff_pts_mode: str
    pages: str
    tell: Callable[[int, Any], None]  # send an update to the sessions of a key
    takeouts: Takeouts


@dataclass(slots=True, frozen=True)
class Call:
    """One request's circumstances."""

    on: Backend
    key_id: int
    user: User | None
    takeout: int | None = None  # the session that the request was made in

    @property
    def me(self) -> User:
        if self.user is None:
            raise RpcError(401, "AUTH_KEY_UNREGISTERED")
        return self.user

    def channel(self, given: Any) -> Channel:
        """The channel that an InputChannel or InputPeer means, if the user may read it."""
        channel = self.known_channel(given)
        if channel.private and self.me.id not in channel.members:
            raise RpcError(400, "CHANNEL_PRIVATE")
        return channel

    def known_channel(self, given: Any) -> Channel:
        """The same without asking whether the user may read it."""
        channel_id = getattr(given, "channel_id", None)
        if channel_id is None:
            raise RpcError(400, "PEER_ID_INVALID")
        channel = self.on.world.channels.get(channel_id)
        if channel is None or getattr(given, "access_hash", channel.access_hash) != channel.access_hash:
            raise RpcError(400, "CHANNEL_INVALID")
        return channel

    def user_of(self, given: Any) -> User | None:
        """The user that an InputUser or InputPeer means."""
        if isinstance(given, (types.InputUserSelf, types.InputPeerSelf)):
            return self.me
        user = self.on.world.users.get(getattr(given, "user_id", 0))
        if user is None or getattr(given, "access_hash", user.access_hash) != user.access_hash:
            return None
        return user


Handler: TypeAlias = Callable[[Call, Any], Any]
Handlers: TypeAlias = Mapping[Any, Handler]  # request class -> handler
