"""The encrypted envelope of MTProto 2.0, and the few things that Telethon can read but not write."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from telethon.crypto import AES
from telethon.network.mtprotostate import MTProtoState
from telethon.tl import TLObject

BOOL_TRUE = struct.pack("<I", 0x997275B5)
BOOL_FALSE = struct.pack("<I", 0xBC799737)
_derive = MTProtoState._calc_key  # noqa: SLF001 - the one derivation that both sides must share


class Raw(TLObject):
    """Bytes made earlier, to stand inside another object."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def _bytes(self) -> bytes:
        return self.data


@dataclass(slots=True, frozen=True)
class Opened:
    """What a client's packet held."""

    salt: int
    session_id: int
    msg_id: int
    seq_no: int
    body: bytes


def key_id_of(packet: bytes) -> int:
    """Which auth key a packet is for; 0 for a plain one."""
    return int.from_bytes(packet[:8], "little")


def open_packet(key: Any, packet: bytes) -> Opened:
    """Decrypt a client's packet; ValueError if it was not made with this key."""
    msg_key, cipher = packet[8:24], packet[24:]
    data = AES.decrypt_ige(cipher[: len(cipher) & ~15], *_derive(key.key, msg_key, client=True))
    if sha256(key.key[88:120] + data).digest()[8:24] != msg_key:
        raise ValueError("a packet's msg_key does not fit its contents")
    salt, session_id, msg_id, seq_no, length = struct.unpack_from("<qqqii", data)
    return Opened(salt, session_id, msg_id, seq_no, data[32 : 32 + length])


def seal_packet(key: Any, opening: Opened) -> bytes:
    """Encrypt what the server has to say."""
    data = struct.pack("<qqqii", opening.salt, opening.session_id, opening.msg_id, opening.seq_no, len(opening.body))
    data += opening.body
    data += os.urandom(-(len(data) + 12) % 16 + 12)
    msg_key = sha256(key.key[96:128] + data).digest()[8:24]
    cipher: bytes = AES.encrypt_ige(data, *_derive(key.key, msg_key, client=False))
    return struct.pack("<Q", key.key_id) + msg_key + cipher


def rpc_result(req_msg_id: int, body: bytes) -> bytes:
    return struct.pack("<Iq", 0xF35C6D01, req_msg_id) + body


def vector(items: list[Any]) -> bytes:
    """A bare `Vector<T>` result."""
    return struct.pack("<Ii", 0x1CB5C415, len(items)) + b"".join(bytes(item) for item in items)


class MessageIds:
    """The server's message ids: odd, unique, growing, near the clock. Clients drop all others in silence."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, *, push: bool) -> int:
        now = int(time.time() * 2**32) & ~3
        self._last = max(now, self._last + 4)
        return self._last | (3 if push else 1)
