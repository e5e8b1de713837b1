"""The door with real tables and limits; a clock that tests set, and cheap passwords."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.credentials import Passwords
from telegram_assistant.access.people import system_caller
from telegram_assistant.access.service import Access
from telegram_assistant.domain.access import Caller, Role

PASSWORD = "correct horse battery staple"


@dataclass
class Clock:
    """Moves when a test says so."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **span: float) -> None:
        self.now += timedelta(**span)


@dataclass
class House:
    """A tenant with its door."""

    access: Access
    clock: Clock
    database: AsyncEngine
    operator: Caller  # whoever types `tga`

    async def somebody(self, login: str, role: Role = Role.MEMBER, password: str = PASSWORD) -> tuple[Caller, str]:
        """A user who has used the link; the caller, and the cookie."""
        invitation = await self.access.people.invite(self.operator, name=login.title(), role=role)
        cookie = await self.access.redeem(invitation.token, login, password, address="192.0.2.1")
        caller = await self.access.by_session(cookie)
        assert caller is not None
        return caller, cookie

    async def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self.database.connect() as connection:
            return [tuple(row) for row in await connection.execute(text(statement), values)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(database: AsyncEngine, redis: Redis, clock: Clock) -> Access:
    cheap = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    return Access(database, redis, clock, passwords=cheap)


@pytest.fixture
def house_of(access: Access, clock: Clock, database: AsyncEngine) -> Callable[..., Any]:
    async def make(name: str) -> House:
        tenant = await access.people.add_tenant(name)
        return House(access, clock, database, system_caller(tenant))

    return make


@pytest.fixture
async def house(house_of: Callable[..., Any]) -> Any:
    return await house_of("ours")
