"""Linking a Telegram user to an account: a short code, shown on the page, good once and for ten minutes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from telegram_assistant.access.tokens import digest
from telegram_assistant.bot import keys
from telegram_assistant.domain.access import Caller
from telegram_assistant.stores.redis import text_of

LASTS = timedelta(minutes=10)
LENGTH = 8  # 31 letters: 8 of them are 850,000,000,000 codes
_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # nothing that looks like something else
_CODE = re.compile(f"[{_ALPHABET}]{{{LENGTH}}}")


@dataclass(frozen=True, slots=True)
class Code:
    """What somebody sends to the bot to be known to it."""

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
        before = text_of(await self._redis.getdel(keys.code_of(caller.user_id)))
        if before is not None:
            await self._redis.delete(keys.code(before))
        await self._redis.set(keys.code_of(caller.user_id), digest(code.text), ex=LASTS)
        await self._redis.set(keys.code(digest(code.text)), owner, ex=LASTS)
        return code

    async def redeem(self, code: str) -> tuple[UUID, UUID] | None:
        """Whose it was, (tenant, user), and it is gone. None: there is no such code, or not any more."""
        found = text_of(await self._redis.getdel(keys.code(digest(code))))
        if found is None:
            return None
        owner = msgspec.json.decode(found, type=_Owner)
        await self._redis.delete(keys.code_of(owner.user_id))
        return owner.tenant_id, owner.user_id


def code_in(text: str) -> str | None:
    """A code as people type it: small letters, spaces and hyphens do no harm."""
    typed = re.sub(r"[\s-]", "", text[:40]).upper()
    return typed if _CODE.fullmatch(typed) else None
