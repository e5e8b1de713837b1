"""Passwords, keys and names: what people sign in with, how it is checked, and how it is kept.

Passwords are hashed by Argon2id, which takes time and memory on purpose: in a thread, and few at once. Keys and tokens
are shown once and kept only as their SHA-256. An address that opens without a credential is signed, for a while, with
a key made from `TGA_SECRET_KEY`.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import string
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from telegram_assistant.config import Settings
from telegram_assistant.domain.text import clean_text
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.errors import Fatal, Reject
from telegram_assistant.stores.sealed import SALT

SHORTEST = 10
LONGEST_PASSWORD = 1_000
AT_ONCE = 2  # each takes 64 MB
TOO_SHORT = f"A password needs at least {SHORTEST} characters: a few words make a good one"
TOO_LONG = f"A password may have at most {LONGEST_PASSWORD} characters"
TOO_EASY = "This password is too easy to guess: a few words make a good one"
SECRET_BYTES = 32  # 43 characters
PREFIX_CHARS = 8
LONGEST_NAME = 100
BAD_LOGIN = "A name to sign in with has 3 to 100 letters and digits, and . _ + - @ between them"
BAD_EMAIL = "This is no e-mail address"

_ALPHABET = string.ascii_lowercase + string.digits
_KEY = re.compile(r"tga_([a-z0-9]{8})_[A-Za-z0-9_-]{43}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_LETTER = r"a-z0-9\u0430-\u044f\u0451"  # English and Russian
_LOGIN = re.compile(f"[{_LETTER}][{_LETTER}._+@-]{{1,98}}[{_LETTER}]")
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,61}[a-z0-9]|[a-z0-9]", re.ASCII)
_EMAIL = re.compile(r"[^\s@]{1,64}@[^\s@]{1,190}\.[^\s@]{2,60}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a password was right, and its hash anew where the old one was made with other parameters."""

    right: bool
    new_hash: str | None = None


def check_new_password(password: str) -> None:
    """Raises Reject with what is wrong with it."""
    if len(password) < SHORTEST:
        raise Reject(TOO_SHORT)
    if len(password) > LONGEST_PASSWORD:
        raise Reject(TOO_LONG)
    if len(set(password)) < 4:
        raise Reject(TOO_EASY)


class Passwords:
    """Makes hashes and checks them. A wrong user takes as long as a wrong password."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._stand_in: str | None = None

    async def hash(self, password: str) -> str:
        check_new_password(password)
        async with self._room:
            return await asyncio.to_thread(self._hasher.hash, _bytes(password))

    async def verify(self, password: str, known: str | None) -> Verdict:
        """`known` is None where there is no such user: the same work is done all the same."""
        async with self._room:
            return await asyncio.to_thread(self._verify, password[: LONGEST_PASSWORD + 1], known)

    def _verify(self, password: str, known: str | None) -> Verdict:
        if self._stand_in is None:
            self._stand_in = self._hasher.hash(secrets.token_urlsafe(32))
        try:
            self._hasher.verify(known or self._stand_in, _bytes(password))
        except (Argon2Error, InvalidHashError):
            return Verdict(right=False)
        if known is None:
            return Verdict(right=False)
        stale = self._hasher.check_needs_rehash(known)
        return Verdict(right=True, new_hash=self._hasher.hash(_bytes(password)) if stale else None)


def _bytes(password: str) -> bytes:
    """A lone surrogate is no reason to fail: no keyboard types one."""
    return password.encode("utf-8", "surrogatepass")


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


def parse_login(text: str) -> str:
    """In lower case; letters, digits and . _ + - @, so that an e-mail address will do."""
    login = clean_text(text).strip().lower()
    if not _LOGIN.fullmatch(login):
        raise Reject(BAD_LOGIN)
    return login


def parse_name(text: str, *, of: str = "A name") -> str:
    name = " ".join(clean_text(text).split())
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise Reject(f"{of} has 1 to {LONGEST_NAME} characters")
    return name


def parse_email(text: str | None) -> str | None:
    email = clean_text(text or "").strip().lower()
    if not email:
        return None
    if not _EMAIL.fullmatch(email):
        raise Reject(BAD_EMAIL)
    return email


def parse_tenant(text: str) -> str:
    """As it stands in commands: lower-case letters, digits and hyphens."""
    name = text.strip()
    if not _TENANT.fullmatch(name):
        raise Reject("A tenant's name has lower-case letters, digits and hyphens, 63 at most: newsroom, team-a")
    return name


LABEL = b"signed addresses"  # another key than that of the sessions, from the same root
LONGEST = 100  # a number and a signature


class Signer:
    """Signs what an address means: its parts, and until when it is good."""

    def __init__(self, key: str) -> None:
        if not key.strip():
            raise Fatal("TGA_SECRET_KEY is blank: set it to a long random text, or unset it to have one made")
        root = Scrypt(salt=SALT, length=32, n=2**14, r=8, p=1).derive(key.strip().encode())
        self._key = HKDFExpand(SHA256(), 32, LABEL).derive(root)

    def sign(self, parts: Sequence[str], *, expires: datetime) -> str:
        """Put it into the address beside its parts. Name the tenant among them."""
        until = int(expires.timestamp())
        return f"{until}.{self._signature(parts, until)}"

    def check(self, parts: Sequence[str], signed: str, *, now: datetime) -> bool:
        """Whether we signed exactly these parts, and it is still good."""
        until, _, signature = signed[: LONGEST + 1].partition(".")
        if not (until.isascii() and until.isdecimal() and len(until) < 15):
            return False
        ours = self._signature(parts, int(until))
        given = signature.encode("utf-8", "replace")
        return hmac.compare_digest(ours.encode(), given) and now.timestamp() < int(until)

    def _signature(self, parts: Sequence[str], until: int) -> str:
        # Each with its length: ("a", "bc") must not be ("ab", "c").
        encoded = [part.encode("utf-8", "surrogatepass") for part in (*parts, str(until))]
        content = b"".join(len(part).to_bytes(4) + part for part in encoded)
        return urlsafe_b64encode(hmac.digest(self._key, content, sha256)).decode().rstrip("=")


def open_signer(settings: Settings, folder: DataFolder) -> Signer:
    """With the configured key, or with the one of the data folder that seals the sessions too."""
    key = settings.tga_secret_key
    return Signer(key.get_secret_value() if key else folder.secret("session.key"))
