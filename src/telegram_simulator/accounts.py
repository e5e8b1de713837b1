"""Signing in: codes, passwords and QR tokens. Errors are Telegram's own."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from telegram_simulator.errors import RpcError
from telegram_simulator.srp import Challenge

if TYPE_CHECKING:
    from telegram_simulator.keys import KeyRing
    from telegram_simulator.model import User
    from telegram_simulator.world import World

TOKEN_LIFE = timedelta(seconds=30)


@dataclass(slots=True)
class SentCode:
    """A code on its way to a phone."""

    phone: str
    code: str
    hash: str


@dataclass(slots=True)
class LoginToken:
    """What a QR code shows; `user_id` is set once a phone has scanned it."""

    token: bytes
    key_id: int
    expires: datetime
    user_id: int | None = None


def _digits(phone: str) -> str:
    return "".join(c for c in phone if c.isdigit())


class Accounts:
    """Who is signed in with which key, and who is about to be."""

    def __init__(self, world: World, keys: KeyRing) -> None:
        self._world = world
        self.keys = keys
        self.login_codes: dict[str, str] = {}  # phone as in the world (or its digits) -> newest code
        self._sent: dict[str, SentCode] = {}  # by hash
        self._half: dict[int, int] = {}  # key id -> user that still owes the password
        self._challenges: dict[int, Challenge] = {}  # by key id
        self._tokens: dict[bytes, LoginToken] = {}
        self._exported: dict[bytes, int] = {}

    def user(self, key_id: int) -> User | None:
        key = self.keys.get(key_id)
        if key is None or key.user_id is None:
            return None
        return self._world.users.get(key.user_id)

    def log_out(self, key_id: int) -> None:
        self._half.pop(key_id, None)
        self.keys.sign(key_id, None)

    # By code

    def send_code(self, phone: str) -> SentCode:
        digits = _digits(phone)
        if not 7 <= len(digits) <= 15:
            raise RpcError(406, "PHONE_NUMBER_INVALID")
        user = self._by_phone(phone)
        if user is not None and user.banned:
            raise RpcError(400, "PHONE_NUMBER_BANNED")
        sent = SentCode(digits, f"{secrets.randbelow(100_000):05}", secrets.token_hex(9))
        self._sent[sent.hash] = sent
        self.login_codes[user.phone if user is not None and user.phone else digits] = sent.code
        return sent

    def resend_code(self, phone: str, code_hash: str) -> SentCode:
        self._expect(phone, code_hash)
        del self._sent[code_hash]
        return self.send_code(phone)

    def sign_in(self, key_id: int, phone: str, code_hash: str, code: str | None) -> User | None:
        """The user, or None where no user has this number."""
        sent = self._expect(phone, code_hash)
        if not code:
            raise RpcError(400, "PHONE_CODE_EMPTY")
        if code != sent.code:
            raise RpcError(400, "PHONE_CODE_INVALID")
        user = self._by_phone(phone)
        del self._sent[code_hash]
        self.login_codes.pop(user.phone if user is not None and user.phone else sent.phone, None)
        return None if user is None else self._admit(key_id, user)

    def _expect(self, phone: str, code_hash: str) -> SentCode:
        if not code_hash:
            raise RpcError(400, "PHONE_CODE_HASH_EMPTY")
        sent = self._sent.get(code_hash)
        if sent is None or sent.phone != _digits(phone):
            raise RpcError(400, "PHONE_CODE_EXPIRED")
        return sent

    def _by_phone(self, phone: str) -> User | None:
        digits = _digits(phone)
        return next((u for u in self._world.users.values() if u.phone and _digits(u.phone) == digits), None)

    def _admit(self, key_id: int, user: User) -> User:
        if user.banned:
            raise RpcError(401, "USER_DEACTIVATED_BAN")
        if user.password is not None:
            self._half[key_id] = user.id
            raise RpcError(401, "SESSION_PASSWORD_NEEDED")
        self.keys.sign(key_id, user.id)
        return user

    # By password

    def challenge(self, key_id: int) -> Challenge | None:
        """A question for the password of the user who is signing in with this key; None if there is none."""
        half = self._half.get(key_id)
        user = self.user(key_id) if half is None else self._world.users[half]
        if user is None:
            raise RpcError(401, "AUTH_KEY_UNREGISTERED")
        if user.password is None:
            return None
        self._challenges[key_id] = Challenge(user.password)
        return self._challenges[key_id]

    def check_password(self, key_id: int, srp_id: int, public: bytes, proof: bytes) -> User:
        half = self._half.get(key_id)
        if half is None:
            raise RpcError(401, "AUTH_KEY_UNREGISTERED")
        challenge = self._challenges.pop(key_id, None)
        if challenge is None or challenge.id != srp_id:
            raise RpcError(400, "SRP_ID_INVALID")
        if not challenge.accepts(public, proof):
            raise RpcError(400, "PASSWORD_HASH_INVALID")
        del self._half[key_id]
        self.keys.sign(key_id, half)
        return self._world.users[half]

    # By QR code

    def login_token(self, key_id: int) -> LoginToken | User:
        """A token to show, or the user if the last one was scanned."""
        now = datetime.now(UTC)
        for token in [t for t in self._tokens.values() if t.expires < now]:
            del self._tokens[token.token]
        for token in self._tokens.values():
            if token.key_id == key_id and token.user_id is not None:
                del self._tokens[token.token]
                return self._admit(key_id, self._world.users[token.user_id])
        fresh = LoginToken(secrets.token_bytes(32), key_id, now + TOKEN_LIFE)
        self._tokens[fresh.token] = fresh
        return fresh

    def accept_token(self, token: bytes | str, user_id: int) -> int:
        """Scan a token as the phone of a user would; the key id of the waiting client."""
        found = self._tokens.get(_token_bytes(token) if isinstance(token, str) else token)
        if found is None:
            raise RpcError(400, "AUTH_TOKEN_INVALID")
        if found.expires < datetime.now(UTC):
            raise RpcError(400, "AUTH_TOKEN_EXPIRED")
        if found.user_id is not None:
            raise RpcError(400, "AUTH_TOKEN_ALREADY_ACCEPTED")
        found.user_id = self._world.users[user_id].id
        return found.key_id

    # To another data centre

    def export(self, user: User) -> bytes:
        token = secrets.token_bytes(32)
        self._exported[token] = user.id
        return token

    def import_(self, key_id: int, user_id: int, token: bytes) -> User:
        if self._exported.pop(token, None) != user_id:
            raise RpcError(400, "AUTH_BYTES_INVALID")
        self.keys.sign(key_id, user_id)
        return self._world.users[user_id]


def _token_bytes(text: str) -> bytes:
    """The token of a `tg://login?token=…` address, or of its base64 alone."""
    if "?" in text:
        text = parse_qs(urlsplit(text).query)["token"][0]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
