"""Secrets that open a door: made here, shown once, kept only as their SHA-256."""

from __future__ import annotations

import hmac
import re
import secrets
import string
from dataclasses import dataclass
from hashlib import sha256

SECRET_BYTES = 32  # 43 characters
PREFIX_CHARS = 8
_ALPHABET = string.ascii_lowercase + string.digits
_KEY = re.compile(r"tga_([a-z0-9]{8})_[A-Za-z0-9_-]{43}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewKey:
    """An API key as its owner gets it, once."""

    token: str
    prefix: str  # to know it by in lists

    @property
    def sha256(self) -> str:
        return digest(self.token)

    def __repr__(self) -> str:
        return f"NewKey({self.prefix})"  # a traceback or a log line must not hold the secret


def new_key() -> NewKey:
    prefix = "".join(secrets.choice(_ALPHABET) for _ in range(PREFIX_CHARS))
    return NewKey(f"tga_{prefix}_{new_token()}", prefix)


def new_token() -> str:
    """For sessions, one-time links and forms."""
    return secrets.token_urlsafe(SECRET_BYTES)


def key_prefix(token: str) -> str | None:
    """None: this is no key of ours, and needs no look into the database."""
    found = _KEY.fullmatch(token)
    return None if found is None else found[1]


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def digest(token: str) -> str:
    """What is stored. The secret is random and long, so it needs no slow hash."""
    return sha256(token.encode()).hexdigest()


def same(one: str, other: str) -> bool:
    """Compared in a time that says nothing about where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
