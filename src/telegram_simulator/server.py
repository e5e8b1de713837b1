"""The simulator: an MTProto server on loopback that tells Telethon what is in a world."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from telethon.sessions import StringSession
from telethon.tl import types

from telegram_simulator.accounts import Accounts
from telegram_simulator.dispatch import Dispatcher, RpcCall, unwrap
from telegram_simulator.faults import Event, Fault, FaultBook
from telegram_simulator.index import Index
from telegram_simulator.keys import KeyRing
from telegram_simulator.link import Link, Session
from telegram_simulator.model import Change, Channel
from telegram_simulator.primes import PUBLIC_KEY
from telegram_simulator.render import Renderer
from telegram_simulator.rpc.call import Backend, Call
from telegram_simulator.rpc.login import accept
from telegram_simulator.rpc.updates import push_for
from telegram_simulator.takeouts import Takeouts
from telegram_simulator.transport import Transport
from telegram_simulator.world import World

LOG_LENGTH = 20_000
REORDER_SECONDS = 0.2  # a push kept back arrives by then even if no other follows


class Simulator:
    """Serves one world. Stopping and starting again keeps the port, the keys and the log."""

    def __init__(
        self,
        world: World,
        *,
        host: str = "127.0.0.1",
        also_at: Sequence[str] = (),
        port: int = 0,
        faults: Iterable[Fault] = (),
        dc_id: int = 2,
        state_path: Path | None = None,
        diff_pts_mode: Literal["real", "zero"] = "real",
        pages: Literal["cut", "padded"] = "cut",
        gzip_answers: bool = False,
        takeout_delay: float = 0.0,
    ) -> None:
        self.world = world
        self.faults = FaultBook(faults)
        self.rpc_log: deque[RpcCall] = deque(maxlen=LOG_LENGTH)
        self.unhandled: list[str] = []
        self.duplicated: list[int | None] = []  # whose keys were used from two addresses at once
        self.public_key_pem: str = PUBLIC_KEY.save_pkcs1().decode()
        self.takeouts = Takeouts(takeout_delay)
        self._gzip = gzip_answers
        self._keys = KeyRing(state_path)
        self._accounts = Accounts(world, self._keys)
        index = Index(world)
        render = Renderer(world, index, dc_id)
        self._backend = Backend(
            *(world, self._accounts, index, render, dc_id, host, port), diff_pts_mode, pages, self._tell, self.takeouts
        )
        self._dispatcher = Dispatcher(self._backend, self.rpc_log, self.unhandled)
        self._salt = secrets.randbits(62)
        self._also_at = tuple(also_at)
        self._servers: list[asyncio.Server] = []
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._deaf: Callable[[], None] | None = None
        self._hung = False
        self._watchers: list[asyncio.Future[None]] = []

    @property
    def port(self) -> int:
        if not self._backend.port:
            raise RuntimeError("the simulator has no port before it is started")
        return self._backend.port

    @property
    def address(self) -> str:
        """As TELEGRAM_SERVER takes it."""
        return self.address_at(self._backend.host)

    def address_at(self, host: str) -> str:
        """The same by another of its hosts: who comes by that one counts as a client at another address."""
        return f"{self._backend.dc_id}:{host}:{self.port}"

    @property
    def diff_pts_mode(self) -> str:
        """`real`: edits and deletions within a difference carry their pts; `zero`: they carry 0."""
        return self._backend.diff_pts_mode

    @diff_pts_mode.setter
    def diff_pts_mode(self, mode: Literal["real", "zero"]) -> None:
        self._backend.diff_pts_mode = mode

    @property
    def pages(self) -> str:
        """What a page at the newest end is: `cut`, or `padded` with older messages."""
        return self._backend.pages

    @pages.setter
    def pages(self, kind: Literal["cut", "padded"]) -> None:
        self._backend.pages = kind

    @property
    def login_codes(self) -> dict[str, str]:
        """The newest code sent to each phone."""
        return self._accounts.login_codes

    def session(self, user_id: int | None = None) -> str:
        """A string session that is signed in already, as the first user unless told otherwise."""
        if user_id is None:
            user_id = next(iter(self.world.users), None)
        if user_id is None or user_id not in self.world.users:
            raise ValueError(f"there is no user {user_id} in this world" if user_id else "this world has no users")
        session = StringSession()
        session.set_dc(self._backend.dc_id, self._backend.host, self.port)
        session.auth_key = self._keys.seeded(user_id).auth
        text: str = session.save()
        return text

    def log_out(self, user_id: int) -> None:
        """End the ready-made session of a user: `session` makes another one."""
        self._accounts.log_out(self._keys.seeded(user_id).auth.key_id)

    def allow_takeout(self, user_id: int) -> None:
        """Another device of the user allows the export that the ready-made session asked for: it need not wait."""
        self.takeouts.allow(self._keys.seeded(user_id).auth.key_id, self.world.now())

    def accept_qr(self, token: bytes | str, user_id: int) -> None:
        """Scan a QR code with a user's phone: its token, or the `tg://login` address that it shows."""
        accept(Call(self._backend, 0, None), token, user_id)

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._links)

    def disconnect(self) -> None:
        """Close every connection; who was connected may come again."""
        for link in list(self._links):
            link.close()

    async def until(self, true: Callable[[], object]) -> None:
        """Return when something is true; it is looked at whenever a request or a push is dealt with."""
        while not true():
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher

    def hang(self, *, hung: bool = True) -> None:
        """From now on nothing is answered or pushed, though connections stay and new ones are taken; or it is again."""
        self._hung = hung
        for link in self._links:
            link.deaf = hung

    async def start(self) -> None:
        if self._servers:
            raise RuntimeError("the simulator is started already")
        for host in (self._backend.host, *self._also_at):
            server = await asyncio.start_server(self._connected, host, self._backend.port)
            self._servers.append(server)
            self._backend.port = server.sockets[0].getsockname()[1]
        self._backend.index.reset()
        self._deaf = self.world.listen(self._changed)

    async def stop(self) -> None:
        """Close every connection and leave no task behind."""
        servers, self._servers = self._servers, []
        if not servers:
            return
        if self._deaf is not None:
            self._deaf()
        for server in servers:
            server.close()
        self.disconnect()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in servers:
            await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    # Connections and requests

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(Transport(reader, writer), self._keys, self._salt, self._serve, gzip_answers=self._gzip)
        link.deaf = self._hung
        self._links.add(link)
        self._spawn(link.run()).add_done_callback(lambda _: self._links.discard(link))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _serve(self, session: Session, msg_id: int, request: Any) -> None:
        task = self._spawn(self._answer(session, msg_id, request))
        session.running[msg_id] = task
        task.add_done_callback(lambda done: self._served(session, msg_id, done))

    def _served(self, session: Session, msg_id: int, task: asyncio.Task[None]) -> None:
        session.running.pop(msg_id, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        # A bug of ours: the client gets an answer, and `unhandled` and the log tell of it.
        self.unhandled.append(repr(error))
        session.link.answer(session, msg_id, bytes(types.RpcError(500, "SIMULATOR_FAILED")))
        asyncio.get_running_loop().call_exception_handler(
            {"message": "the simulator failed on a request", "exception": error, "task": task}
        )

    async def _answer(self, session: Session, msg_id: int, wrapped: Any) -> None:
        plain = unwrap(wrapped)
        await self._wait_for(session, plain.after)
        key_id, request = session.key.auth.key_id, plain.request
        method, user_id = plain.method, session.key.user_id
        session.wants_updates |= plain.wants_updates
        if self._duplicated(session):
            self._dispatcher.note(method, request, user_id, "AUTH_KEY_DUPLICATED")
            session.link.answer(session, msg_id, bytes(types.RpcError(406, "AUTH_KEY_DUPLICATED")))
            self._stir()
            return
        fault = self._fault(self._dispatcher.event(method, request, user_id)) if len(self.faults) else None
        action = None if fault is None else fault.action
        if action in {"drop", "silence"}:
            self._dispatcher.note(method, request, user_id, action or "")
            if action == "drop":
                session.link.close()
            return
        if fault is not None and action == "slow":
            await asyncio.sleep(fault.seconds)
        self.world.reveal()
        body, outcome = self._dispatcher.execute(key_id, request, fault, plain.takeout)
        self._dispatcher.note(method, request, user_id, action if action in {"lose", "cut"} else outcome)
        if action == "lose":
            session.link.close()
        elif action == "cut":
            session.link.cut(session, msg_id, body)
        else:
            session.link.answer(session, msg_id, body)
        self._stir()

    def _duplicated(self, session: Session) -> bool:
        """A key that is used from two addresses at once opens nothing from then on, as Telegram does it."""
        key, way = session.key, session.link.way
        if not key.duplicated and any(
            other.key is key for link in self._links if link.way != way for other in link.sessions.values()
        ):
            self.duplicated.append(key.user_id)
            self._keys.revoke(key)
        return key.duplicated

    def _fault(self, event: Event) -> Fault | None:
        fault = self.faults.pick(event)
        self._stir()
        return fault

    def _stir(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def _wait_for(self, session: Session, msg_ids: Iterable[int]) -> None:
        earlier = [session.running[i] for i in msg_ids if i in session.running]
        if earlier:
            await asyncio.wait(earlier)

    # Updates

    def _changed(self, channel: Channel, change: Change) -> None:
        self._backend.index.apply(channel, change)
        bodies: dict[int, bytes] = {}
        for session in [s for link in self._links for s in link.sessions.values() if s.wants_updates]:
            user = self._accounts.user(session.key.auth.key_id)
            if user is None or user.id not in channel.members:
                continue
            if user.id not in bodies:
                push = push_for(self._backend.render, channel, change, user, self.world.now())
                bodies[user.id] = bytes(push)
            username = channel.username.lower() if channel.username else None
            self._push(session, bodies[user.id], Event(f"push.{change.kind}", user.id, channel.id, username))

    def _push(self, session: Session, body: bytes, event: Event) -> None:
        fault = self._fault(event) if len(self.faults) else None
        action = None if fault is None else fault.action
        if action == "push_lose":
            return
        if action == "push_reorder":
            session.held.append(body)
            _ = self._spawn(self._release_later(session))
            return
        session.link.push(session, body)
        if action == "push_double":
            session.link.push(session, body)
        self._release(session)

    async def _release_later(self, session: Session) -> None:
        await asyncio.sleep(REORDER_SECONDS)
        self._release(session)

    def _release(self, session: Session) -> None:
        held, session.held = session.held, []
        for body in held:
            session.link.push(session, body)

    def _tell(self, key_id: int, update: Any) -> None:
        """Send an update to every session of a key, signed in or not."""
        for session in [s for link in self._links for s in link.sessions.values()]:
            if session.key.auth.key_id == key_id and session.wants_updates:
                session.link.push(session, bytes(update))
