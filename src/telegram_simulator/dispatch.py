"""From a request to its answer: names, handlers, faults and the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from telethon.tl import functions, types

from telegram_simulator.errors import RpcError
from telegram_simulator.faults import Event, Fault
from telegram_simulator.rpc import account, channels, files, history, login, updates
from telegram_simulator.rpc.call import Backend, Call, Handlers

HANDLERS: Handlers = {
    **account.HANDLERS,
    **channels.HANDLERS,
    **files.HANDLERS,
    **history.HANDLERS,
    **login.HANDLERS,
    **updates.HANDLERS,
}
_OPEN: AbstractSet[Any] = {  # what a client may ask before it is signed in
    *login.HANDLERS,
    functions.help.GetConfigRequest,
    functions.help.GetNearestDcRequest,
}
_WRAPPERS = (
    functions.InvokeWithLayerRequest,
    functions.InitConnectionRequest,
    functions.InvokeWithoutUpdatesRequest,
    functions.InvokeWithTakeoutRequest,
    functions.InvokeAfterMsgRequest,
    functions.InvokeAfterMsgsRequest,
)
_LOST = {"lose_newest", "lose_middle", "lose_oldest"}
_SECRET = {"phone_code", "api_hash", "password", "phone_code_hash"}


@dataclass(slots=True, frozen=True)
class RpcCall:
    """One line of the RPC log."""

    time: datetime
    user_id: int | None
    method: str
    args: str
    outcome: str  # ok | an error's message | the fault that swallowed it


@dataclass(slots=True)
class Unwrapped:
    """A request without its wrappers, and what they said."""

    request: Any
    wants_updates: bool = True
    after: tuple[int, ...] = ()
    takeout: int | None = None

    @property
    def method(self) -> str:
        """In a takeout it is another: it has limits of its own."""
        name = method_name(self.request)
        return name if self.takeout is None else f"invokeWithTakeout({name})"


def unwrap(request: Any) -> Unwrapped:
    found = Unwrapped(request)
    while isinstance(found.request, _WRAPPERS):
        if isinstance(found.request, functions.InvokeWithoutUpdatesRequest):
            found.wants_updates = False
        elif isinstance(found.request, functions.InvokeAfterMsgRequest):
            found.after = (found.request.msg_id,)
        elif isinstance(found.request, functions.InvokeAfterMsgsRequest):
            found.after = tuple(found.request.msg_ids)
        elif isinstance(found.request, functions.InvokeWithTakeoutRequest):
            found.takeout = found.request.takeout_id
        found.request = found.request.query
    return found


def method_name(request: Any) -> str:
    """A request's name as Telegram's documentation has it, such as `messages.getHistory`."""
    kind = type(request)
    topic = kind.__module__.rpartition(".")[2]
    name = kind.__name__.removesuffix("Request")
    name = name[:1].lower() + name[1:]
    return name if topic == "functions" else f"{topic}.{name}"


def _short(request: Any) -> str:
    parts = []
    for name, value in vars(request).items():
        if name in _SECRET or value is None or value in (0, ""):
            continue
        if isinstance(value, (list, tuple)):
            parts.append(f"{name}[{len(value)}]")
        elif hasattr(value, "channel_id"):
            parts.append(f"{name}={value.channel_id}")
        elif isinstance(value, (int, str)):
            parts.append(f"{name}={value}"[:60])
        elif isinstance(value, datetime) and value.timestamp() > 0:
            parts.append(f"{name}={value:%Y-%m-%dT%H:%M:%S}")
        elif hasattr(value, "id"):
            parts.append(f"{name}={value.id}")
    return " ".join(parts)


def _spoil(result: Any, fault: Fault) -> None:
    """What a fault does to an answer. Pages are newest first; one of fewer than three messages stays whole."""
    if fault.action == "truncate_file" and isinstance(result, types.upload.File):
        result.bytes = result.bytes[: len(result.bytes) // 2]
    elif fault.action in _LOST and isinstance(result, types.messages.ChannelMessages):
        part = len(result.messages) // 3
        start = {"lose_newest": 0, "lose_middle": part, "lose_oldest": len(result.messages) - part}[fault.action]
        del result.messages[start : start + part]


class Dispatcher:
    """Executes requests against the backend and writes down what came of them."""

    def __init__(self, backend: Backend, log: deque[RpcCall], unhandled: list[str]) -> None:
        self._on = backend
        self._log = log
        self._unhandled = unhandled

    def event(self, method: str, request: Any, user_id: int | None) -> Event:
        """A request as faults see it."""
        username = getattr(request, "username", None)
        peer = getattr(request, "channel", None) or getattr(request, "peer", None)
        channel_id = getattr(peer, "channel_id", None)
        channel = self._on.world.channels.get(channel_id or 0)
        if channel is not None and channel.username:
            username = channel.username
        named = self._on.world.by_username(username) if isinstance(username, str) and channel is None else None
        return Event(
            method,
            user_id,
            channel_id if named is None else named.id,
            username.lower().removeprefix("@") if isinstance(username, str) else None,
        )

    def note(self, method: str, request: Any, user_id: int | None, outcome: str) -> None:
        self._log.append(RpcCall(datetime.now(UTC), user_id, method, _short(request), outcome))

    def execute(self, key_id: int, request: Any, fault: Fault | None, takeout: int | None = None) -> tuple[bytes, str]:
        """The body of the answer, and the outcome for the log."""
        try:
            result = self._result(key_id, request, fault, takeout)
            return bytes(result), "ok"
        except RpcError as exc:
            return bytes(types.RpcError(exc.code, exc.message)), exc.message

    def _result(self, key_id: int, request: Any, fault: Fault | None, takeout: int | None) -> Any:
        if fault is not None:
            self._break(request, fault)
        handler = HANDLERS.get(type(request))
        if handler is None:
            self._unhandled.append(method_name(request))
            raise RpcError(400, "METHOD_UNKNOWN")
        user = self._on.accounts.user(key_id)
        if user is None and type(request) not in _OPEN:
            raise RpcError(401, "AUTH_KEY_UNREGISTERED")
        if user is not None and user.banned:
            raise RpcError(401, "USER_DEACTIVATED_BAN")
        if takeout is not None:
            self._on.takeouts.check(key_id, takeout)
        result = handler(Call(self._on, key_id, user, takeout), request)
        if fault is not None:
            _spoil(result, fault)
        return result

    def _break(self, request: Any, fault: Fault) -> None:
        """What a fault does before a request is executed."""
        match fault.action:
            case "flood":
                raise RpcError(420, f"FLOOD_WAIT_{int(fault.seconds)}")
            case "flood_premium":
                raise RpcError(420, f"FLOOD_PREMIUM_WAIT_{int(fault.seconds)}")
            case "error":
                raise RpcError(fault.code, fault.message)
            case "expire_references":
                file = self._on.world.files.get(getattr(getattr(request, "location", None), "id", 0))
                self._on.world.expire_references(None if file is None else [file])
