"""A user's link with the bot, as the account page and the API show and change it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from telegram_assistant.access.credentials import digest
from telegram_assistant.domain.access import Caller
from telegram_assistant.services.bot_state import Memory, code_key, user_code_key
from telegram_assistant.services.problems import conflict, forbidden
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.telegram_users import TelegramUsers
from telegram_assistant.stores.redis import text_of

NO_BOT = "There is no bot here: an admin sets TELEGRAM_BOT_TOKEN"


@dataclass(frozen=True, slots=True)
class LinkState:
    """Whether a user is linked with the bot."""

    configured: bool
    username: str | None  # of the bot, once it ran
    linked: bool
    blocked: bool  # by its user: it cannot write


class BotAccount:
    """For one caller."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._users = TelegramUsers(services.database)
        self._memory = Memory(services.redis)

    async def state(self) -> LinkState:
        token = self._services.settings.telegram_bot_token
        linked = await self._users.of_user(self._caller.tenant_id, self._caller.user_id) is not None
        return LinkState(
            configured=token is not None,
            username=await self._memory.bot_username(bot_id_of(token.get_secret_value())) if token else None,
            linked=linked,
            blocked=linked and await self._memory.has_blocked(self._caller.user_id),
        )

    async def code(self) -> Code:
        """Raises a problem without a bot, and for a key that may do less than its owner: the bot may do all."""
        if self._services.settings.telegram_bot_token is None:
            raise conflict(NO_BOT)
        user = await self._services.access.people.user(self._caller, self._caller.user_id)
        if user is None or user.role is not self._caller.role:
            raise forbidden("This key may do less than you: use one with all your rights, or your account page")
        code = await Codes(self._services.redis, self._services.clock).make(self._caller)
        await self._services.access.record(self._caller, "telegram_code_made")
        return code

    async def unlink(self) -> None:
        if await self._users.unlink(self._caller.tenant_id, self._caller.user_id):
            await self._memory.forget(self._caller.user_id)
            await self._services.access.record(self._caller, "telegram_unlinked")


LASTS = timedelta(minutes=10)
LENGTH = 8  # 31 letters: 8 of them are 850,000,000,000 codes
_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # nothing that looks like something else
_CODE = re.compile(f"[{_ALPHABET}]{{{LENGTH}}}")


@dataclass(frozen=True, slots=True)
class Code:
    """The code that links a Telegram user to an account."""

    text: str = field(repr=False)
    expires_at: datetime

    def link(self, username: str | None) -> str | None:
        """Opens the bot with the code filled in."""
        return f"https://t.me/{username}?start={self.text}" if username else None


class _Owner(msgspec.Struct, frozen=True):
    tenant_id: UUID
    user_id: UUID


class Codes:
    """Only hashes of codes are kept, in Redis, which forgets them by itself."""

    def __init__(self, redis: Redis, clock: Callable[[], datetime]) -> None:
        self._redis = redis
        self._clock = clock

    async def make(self, caller: Caller) -> Code:
        """In place of the one that the caller had before."""
        code = Code("".join(secrets.choice(_ALPHABET) for _ in range(LENGTH)), self._clock() + LASTS)
        owner = msgspec.json.encode(_Owner(caller.tenant_id, caller.user_id))
        before = text_of(await self._redis.getdel(user_code_key(caller.user_id)))
        if before is not None:
            await self._redis.delete(code_key(before))
        await self._redis.set(user_code_key(caller.user_id), digest(code.text), ex=LASTS)
        await self._redis.set(code_key(digest(code.text)), owner, ex=LASTS)
        return code

    async def redeem(self, code: str) -> tuple[UUID, UUID] | None:
        """Whose it was, (tenant, user), and it is gone. None: there is no such code, or not any more."""
        found = text_of(await self._redis.getdel(code_key(digest(code))))
        if found is None:
            return None
        owner = msgspec.json.decode(found, type=_Owner)
        await self._redis.delete(user_code_key(owner.user_id))
        return owner.tenant_id, owner.user_id


def code_in(text: str) -> str | None:
    """A code as people type it: small letters, spaces and hyphens do no harm."""
    typed = re.sub(r"[\s-]", "", text[:40]).upper()
    return typed if _CODE.fullmatch(typed) else None


def bot_id_of(token: str) -> int:
    """A token begins with the bot's id; 0 for what is no token."""
    number = token.partition(":")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 20 else 0


def webhook_secret(token: str, chosen: str | None) -> str:
    """What Telegram must send with each update. Without one of your own it follows from the token."""
    return chosen or hmac.new(token.encode(), b"webhook", hashlib.sha256).hexdigest()
