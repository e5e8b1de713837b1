"""Two-step verification: the server's side of Telegram's SRP."""

from __future__ import annotations

import os
import secrets
from hashlib import sha256
from typing import Any

from telethon.password import compute_hash
from telethon.tl import types

from telegram_simulator.primes import GENERATOR, SAFE_PRIME


def _wide(number: int) -> bytes:
    return number.to_bytes(256, "big")


def _hash(*parts: bytes) -> bytes:
    return sha256(b"".join(parts)).digest()


def new_algorithm() -> Any:
    """A key derivation with fresh salts."""
    return types.PasswordKdfAlgoSHA256SHA256PBKDF2HMACSHA512iter100000SHA256ModPow(
        os.urandom(8), os.urandom(16), GENERATOR, _wide(SAFE_PRIME)
    )


class Challenge:
    """One question for a password, good for one answer."""

    def __init__(self, password: str) -> None:
        self.id = secrets.randbits(62)
        self.algorithm = new_algorithm()
        x = int.from_bytes(compute_hash(self.algorithm, password), "big")
        self._verifier = pow(GENERATOR, x, SAFE_PRIME)
        self._b = secrets.randbits(2048)
        multiplier = int.from_bytes(_hash(_wide(SAFE_PRIME), _wide(GENERATOR)), "big")
        self._public = (multiplier * self._verifier + pow(GENERATOR, self._b, SAFE_PRIME)) % SAFE_PRIME

    @property
    def public(self) -> bytes:
        return _wide(self._public)

    def accepts(self, client_public: bytes, proof: bytes) -> bool:
        """Whether the client's proof shows that it knows the password."""
        a = int.from_bytes(client_public, "big")
        if not 0 < a < SAFE_PRIME:
            return False
        u = int.from_bytes(_hash(_wide(a), self.public), "big")
        shared = pow(a * pow(self._verifier, u, SAFE_PRIME), self._b, SAFE_PRIME)
        group = bytes(x ^ y for x, y in zip(_hash(_wide(SAFE_PRIME)), _hash(_wide(GENERATOR)), strict=True))
        salts = _hash(self.algorithm.salt1) + _hash(self.algorithm.salt2)
        expected = _hash(group, salts, _wide(a), self.public, _hash(_wide(shared)))
        return secrets.compare_digest(expected, proof)
