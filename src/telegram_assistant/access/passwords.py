"""Passwords, by Argon2id. It takes time and memory on purpose: in a thread, and few at once."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from telegram_assistant.errors import Reject

SHORTEST = 10
LONGEST = 1_000
AT_ONCE = 2  # each takes 64 MB
TOO_SHORT = f"A password needs at least {SHORTEST} characters: a few words make a good one"
TOO_LONG = f"A password may have at most {LONGEST} characters"
TOO_EASY = "This password is too easy to guess: a few words make a good one"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a password was right, and its hash anew where the old one was made with other parameters."""

    right: bool
    new_hash: str | None = None


def check_new_password(password: str) -> None:
    """Raises Reject with what is wrong with it."""
    if len(password) < SHORTEST:
        raise Reject(TOO_SHORT)
    if len(password) > LONGEST:
        raise Reject(TOO_LONG)
    if len(set(password)) < 4:
        raise Reject(TOO_EASY)


class Passwords:
    """Makes hashes and checks them. A wrong user takes as long as a wrong password."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._nobodys: str | None = None

    async def hash(self, password: str) -> str:
        check_new_password(password)
        async with self._room:
            return await asyncio.to_thread(self._hasher.hash, _bytes(password))

    async def verify(self, password: str, known: str | None) -> Verdict:
        """`known` is None where there is no such user: the same work is done all the same."""
        async with self._room:
            return await asyncio.to_thread(self._verify, password[: LONGEST + 1], known)

    def _verify(self, password: str, known: str | None) -> Verdict:
        if self._nobodys is None:
            self._nobodys = self._hasher.hash(secrets.token_urlsafe(32))
        try:
            self._hasher.verify(known or self._nobodys, _bytes(password))
        except (Argon2Error, InvalidHashError):
            return Verdict(right=False)
        if known is None:
            return Verdict(right=False)
        stale = self._hasher.check_needs_rehash(known)
        return Verdict(right=True, new_hash=self._hasher.hash(_bytes(password)) if stale else None)


def _bytes(password: str) -> bytes:
    """A lone surrogate is no reason to fail; nobody can type one."""
    return password.encode("utf-8", "surrogatepass")
