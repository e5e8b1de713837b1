"""The making of an auth key: RSA and Diffie-Hellman, the server's side."""

from __future__ import annotations

import os
import secrets
import struct
import time
from collections.abc import Callable
from hashlib import sha1
from typing import Any

import rsa.core
from telethon.crypto import AES, AuthKey
from telethon.crypto.rsa import _compute_fingerprint, get_byte_array
from telethon.extensions import BinaryReader
from telethon.helpers import generate_key_data_from_nonce
from telethon.tl import functions, types

from telegram_simulator.primes import GENERATOR, PUBLIC_KEY, SAFE_PRIME, SERVER_KEY

FINGERPRINT: int = _compute_fingerprint(PUBLIC_KEY)
# Large enough for Telethon's factorisation to be right, small enough for it to be quick.
_PQ = get_byte_array(16777213 * 16777259)


class HandshakeError(ValueError):
    """A client sent something that is no step of the handshake."""


class Handshake:
    """One client's way to an auth key: three plain requests in order."""

    def __init__(self, made: Callable[[Any], object]) -> None:
        self._made = made
        self._server_nonce = int.from_bytes(os.urandom(16), "little", signed=True)
        self._new_nonce = 0
        self._a = 0

    def answer(self, packet: bytes) -> bytes:
        """The plain answer to a plain packet."""
        request = BinaryReader(packet[20:]).tgread_object()
        if isinstance(request, (functions.ReqPqMultiRequest, functions.ReqPqRequest)):
            result = types.ResPQ(request.nonce, self._server_nonce, _PQ, [FINGERPRINT])
        elif isinstance(request, functions.ReqDHParamsRequest):
            result = self._offer(request)
        elif isinstance(request, functions.SetClientDHParamsRequest):
            result = self._finish(request)
        else:
            raise HandshakeError(f"{type(request).__name__} without an auth key")
        body = bytes(result)
        return struct.pack("<qqi", 0, int(time.time()) << 32 | 1, len(body)) + body

    def _offer(self, request: Any) -> Any:
        number = int.from_bytes(request.encrypted_data, "big")
        plain = rsa.core.decrypt_int(number, SERVER_KEY.d, SERVER_KEY.n).to_bytes(255, "big")
        inner = BinaryReader(plain[20:]).tgread_object()
        self._new_nonce = inner.new_nonce
        self._a = secrets.randbits(2048)
        g_a = get_byte_array(pow(GENERATOR, self._a, SAFE_PRIME))
        answer = bytes(
            types.ServerDHInnerData(
                request.nonce, self._server_nonce, GENERATOR, get_byte_array(SAFE_PRIME), g_a, int(time.time())
            )
        )
        answer = sha1(answer).digest() + answer
        answer += os.urandom(-len(answer) % 16)
        return types.ServerDHParamsOk(request.nonce, self._server_nonce, AES.encrypt_ige(answer, *self._cipher()))

    def _finish(self, request: Any) -> Any:
        plain = AES.decrypt_ige(request.encrypted_data, *self._cipher())
        inner = BinaryReader(plain[20:]).tgread_object()
        shared = get_byte_array(pow(int.from_bytes(inner.g_b, "big"), self._a, SAFE_PRIME))
        key = AuthKey(shared)
        if len(shared) != 256:  # Telethon would not pad it, and a string session of 255 bytes cannot be loaded
            again = key.calc_new_nonce_hash(self._new_nonce, 2)
            return types.DhGenRetry(request.nonce, self._server_nonce, again)
        self._made(key)
        return types.DhGenOk(request.nonce, self._server_nonce, key.calc_new_nonce_hash(self._new_nonce, 1))

    def _cipher(self) -> Any:
        return generate_key_data_from_nonce(self._server_nonce, self._new_nonce)
