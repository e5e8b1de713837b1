"""One client's connection: packets in, requests out to the server, answers and pushes back."""

from __future__ import annotations

import asyncio
import gzip
import logging
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from telethon.errors import TypeNotFoundError
from telethon.extensions import BinaryReader
from telethon.tl import TLObject, TLRequest, functions, types
from telethon.tl.core import GzipPacked, MessageContainer

from telegram_simulator.envelope import MessageIds, Opened, key_id_of, open_packet, rpc_result, seal_packet
from telegram_simulator.handshake import Handshake, HandshakeError
from telegram_simulator.keys import Key, KeyRing
from telegram_simulator.transport import Gone, Transport

_log = logging.getLogger(__name__)
_TOO_OLD, _TOO_NEW = 300, 30  # seconds that a client's message id may be off the clock
_ANSWERED_PLAINLY = (functions.PingRequest, functions.PingDelayDisconnectRequest)


@dataclass(slots=True)
class Session:
    """What a client calls a session: it lives as long as the connection."""

    id: int
    key: Key
    link: Link
    wants_updates: bool = False
    sent: int = 0
    running: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    held: list[bytes] = field(default_factory=list)  # pushes kept back to arrive out of order


Serve: TypeAlias = Callable[[Session, int, Any], None]


class Link:
    """A connection. `serve` is called for every request and answers by `answer`."""

    def __init__(self, transport: Transport, keys: KeyRing, salt: int, serve: Serve, *, gzip_answers: bool) -> None:
        self._transport = transport
        self._keys = keys
        self._salt = salt
        self._serve = serve
        self._gzip = gzip_answers
        self._ids = MessageIds()
        self._handshake = Handshake(keys.add)
        self.sessions: dict[int, Session] = {}
        self.deaf = False  # packets are taken, and nothing is sent

    @property
    def way(self) -> tuple[str, ...]:
        """Where the client comes from, and by which address it reached us."""
        return self._transport.way

    async def run(self) -> None:
        """Read until the client goes away or breaks the protocol."""
        try:
            while await self._step():
                pass
        except Gone:
            pass
        except (HandshakeError, ValueError, struct.error, BufferError, TypeNotFoundError) as exc:
            _log.warning("closing a connection that broke the protocol: %s", exc)
        finally:
            self.close()
            await self._transport.wait_closed()

    def close(self) -> None:
        self.sessions.clear()
        self._transport.close()

    def answer(self, session: Session, msg_id: int, body: bytes) -> None:
        if not self.deaf:
            self._transport.write(self._seal(session, rpc_result(msg_id, self._packed(body))))

    def cut(self, session: Session, msg_id: int, body: bytes) -> None:
        """Answer by half, then close."""
        self._transport.write_half(self._seal(session, rpc_result(msg_id, body)))
        self.sessions.clear()

    def push(self, session: Session, body: bytes) -> None:
        if not self.deaf:
            self._transport.write(self._seal(session, body, push=True))

    async def _step(self) -> bool:
        packet = await self._transport.read()
        if self.deaf:
            return True
        key_id = key_id_of(packet)
        if key_id == 0:
            self._transport.write(self._handshake.answer(packet))
            return True
        key = self._keys.get(key_id)
        if key is None:
            self._transport.write(struct.pack("<i", -404))  # "I do not know this auth key"
            return False
        self._receive(key, open_packet(key.auth, packet))
        return True

    def _receive(self, key: Key, opened: Opened) -> None:
        session = self.sessions.get(opened.session_id)
        if session is None:
            session = Session(opened.session_id, key, self)
        refusal = self._refusal(opened)
        if refusal is not None:
            self.push(session, bytes(refusal))
            return
        if opened.session_id not in self.sessions:
            self.sessions[opened.session_id] = session
            self.push(session, bytes(types.NewSessionCreated(opened.msg_id, opened.session_id, self._salt)))
        for msg_id, thing in _messages(opened.msg_id, opened.body):
            self._handle(session, msg_id, thing)

    def _refusal(self, opened: Opened) -> Any:
        if opened.salt != self._salt:
            return types.BadServerSalt(opened.msg_id, opened.seq_no, 48, self._salt)
        sent = opened.msg_id >> 32
        wrong = 18 if opened.msg_id % 4 else 0
        wrong = 16 if sent < time.time() - _TOO_OLD else 17 if sent > time.time() + _TOO_NEW else wrong
        return types.BadMsgNotification(opened.msg_id, opened.seq_no, wrong) if wrong else None

    def _handle(self, session: Session, msg_id: int, thing: Any) -> None:
        if isinstance(thing, _ANSWERED_PLAINLY):
            self._transport.write(self._seal(session, bytes(types.Pong(msg_id, thing.ping_id))))
        elif isinstance(thing, TLRequest):
            self._serve(session, msg_id, thing)
        # The rest are acknowledgements and the like: nothing is resent here, so nothing is to be noted.

    def _seal(self, session: Session, body: bytes, *, push: bool = False) -> bytes:
        session.sent += 1
        opened = Opened(self._salt, session.id, self._ids.next(push=push), session.sent * 2 - 1, body)
        return seal_packet(session.key.auth, opened)

    def _packed(self, body: bytes) -> bytes:
        if not self._gzip or len(body) < 512 or body[:4] == _FILE:
            return body
        packed: bytes = TLObject.serialize_bytes(gzip.compress(body, compresslevel=1))
        return struct.pack("<I", GzipPacked.CONSTRUCTOR_ID) + packed


_FILE = struct.pack("<I", types.upload.File.CONSTRUCTOR_ID)


def _messages(msg_id: int, body: bytes) -> Iterator[tuple[int, Any]]:
    """The messages of a packet: one, or those of a container; unpacked where they are gzipped."""
    thing = BinaryReader(body).tgread_object()
    if isinstance(thing, MessageContainer):
        for inner in thing.messages:
            yield inner.msg_id, _unpacked(inner.obj)
    else:
        yield msg_id, _unpacked(thing)


def _unpacked(thing: Any) -> Any:
    return BinaryReader(thing.data).tgread_object() if isinstance(thing, GzipPacked) else thing
