"""Signing in: a new session each time, no word about what was wrong, and not too often."""

from __future__ import annotations

from typing import Any

import pytest
from argon2 import PasswordHasher
from redis.asyncio import Redis

from telegram_assistant.access.credentials import Passwords, digest, new_token
from telegram_assistant.access.service import PER_ADDRESS, PER_LOGIN, WRONG, Access
from telegram_assistant.domain.access import SYSTEM_TENANT, Role, Via
from telegram_assistant.errors import Reject, Retry

pytestmark = pytest.mark.integration

PASSWORD = "correct horse battery staple"
HERE = "192.0.2.7"
House = Any  # of conftest.py, which cannot be imported


async def test_a_session_is_of_its_user(house: House) -> None:
    ann, _ = await house.somebody("ann", Role.ADMIN)
    cookie = await house.access.sign_in(" ANN ", PASSWORD, address=HERE, user_agent="Browser\0/1.0" + "x" * 1000)
    caller = await house.access.by_session(cookie)
    assert (caller.tenant, caller.name, caller.role, caller.via) == ("ours", "Ann", Role.ADMIN, Via.SESSION)
    assert caller.user_id == ann.user_id
    assert caller.csrf
    assert caller.csrf != ann.csrf
    [(agent,)] = await house.rows("SELECT user_agent FROM sessions WHERE sha256 = :it", it=digest(cookie))
    assert agent.startswith("Browser/1.0x")
    assert len(agent) == 300


async def test_only_the_hash_is_kept(house: House) -> None:
    _, cookie = await house.somebody("ann")
    dump = await house.rows("SELECT to_jsonb(s)::text FROM sessions s")
    assert cookie not in str(dump)
    assert digest(cookie) in str(dump)
    assert PASSWORD not in str(await house.rows("SELECT to_jsonb(u)::text FROM users u"))


@pytest.mark.parametrize(
    "login,password",
    [
        ("ann", "wrong password"),
        ("bob", PASSWORD),
        ("", ""),
        ("ann\0", "\0"),
        ("a" * 10_000, "p" * 10_000),
        ("\ud800", "x"),
    ],
)
async def test_what_is_wrong_is_not_told(house: House, login: str, password: str) -> None:
    await house.somebody("ann")
    with pytest.raises(Reject) as told:
        await house.access.sign_in(login, password, address=HERE)
    assert str(told.value) == WRONG


async def test_an_unknown_name_costs_the_same_work(house: House, redis: Redis) -> None:
    """One check of a password and one line in the log, whether there is such a user or not."""
    asked: list[str | None] = []

    class Watched(Passwords):
        async def verify(self, password: str, known: str | None) -> Any:
            asked.append(known)
            return await super().verify(password, known)

    await house.somebody("ann")
    passwords = Watched(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    access = Access(house.database, redis, house.clock, passwords=passwords)
    for login in ("ann", "nobody"):
        with pytest.raises(Reject):
            await access.sign_in(login, "wrong password", address=HERE)
    assert [known is None for known in asked] == [False, True]
    failed = await house.rows("SELECT tenant_id::text FROM audit_log WHERE action = 'sign_in_failed' ORDER BY id")
    assert failed == [(str(house.operator.tenant_id),), (SYSTEM_TENANT,)]


async def test_a_session_that_came_from_outside_is_never_taken(house: House) -> None:
    """Fixation: a cookie that somebody planted before the sign-in opens nothing after it."""
    _, first = await house.somebody("ann")
    planted = new_token()
    second = await house.access.sign_in("ann", PASSWORD, address=HERE)
    assert len({planted, first, second}) == 3
    assert await house.access.by_session(planted) is None
    for nothing in ("", "x", "\0", "\ud800", "x" * 10_000, digest(second)):
        assert await house.access.by_session(nothing) is None


async def test_it_lasts_as_long_as_it_is_used(house: House) -> None:
    _, cookie = await house.somebody("ann")
    for _ in range(3):
        house.clock.pass_(days=13)
        assert await house.access.by_session(cookie) is not None
    house.clock.pass_(days=14, seconds=1)
    assert await house.access.by_session(cookie) is None
    await house.access.sign_in("ann", PASSWORD, address=HERE)
    assert len(await house.rows("SELECT 1 FROM sessions")) == 1, "what is over is cleared away"


async def test_signing_out(house: House) -> None:
    ann, cookie = await house.somebody("ann")
    other = await house.access.sign_in("ann", PASSWORD, address=HERE)
    await house.access.sign_out(cookie)
    assert await house.access.by_session(cookie) is None
    assert await house.access.by_session(other) is not None
    third = await house.access.sign_in("ann", PASSWORD, address=HERE)
    assert await house.access.sign_out_everywhere(ann) == 2
    assert await house.access.by_session(other) is None
    assert await house.access.by_session(third) is None


async def test_a_disabled_user_is_out_and_stays_out(house: House) -> None:
    await house.somebody("boss", Role.ADMIN)
    ann, cookie = await house.somebody("ann")
    key = (await house.access.people.create_key(ann, name="script")).token
    await house.access.people.change(house.operator, ann.user_id, disabled=True)
    assert await house.access.by_session(cookie) is None
    assert await house.access.by_key(key) is None
    with pytest.raises(Reject, match=WRONG):
        await house.access.sign_in("ann", PASSWORD, address=HERE)
    await house.access.people.change(house.operator, ann.user_id, disabled=False)
    assert await house.access.by_session(cookie) is None
    assert await house.access.by_key(key) is not None
    assert await house.access.sign_in("ann", PASSWORD, address=HERE)


async def test_guessing_is_slowed_down(house: House) -> None:
    await house.somebody("ann")
    for _ in range(PER_LOGIN):
        with pytest.raises(Reject):
            await house.access.sign_in("ann", "wrong password", address=HERE)
    with pytest.raises(Retry, match="Too many attempts") as told:
        await house.access.sign_in("ann", PASSWORD, address=HERE)
    assert told.value.after is not None
    assert 60 < told.value.after <= 90
    assert await house.access.sign_in("ann", PASSWORD, address="198.51.100.1"), "ann at home is not locked out"
    house.clock.pass_(minutes=15)
    assert await house.access.sign_in("ann", PASSWORD, address=HERE)


async def test_guessing_many_names_is_slowed_down_too(house: House) -> None:
    for number in range(PER_ADDRESS):
        with pytest.raises(Reject):
            await house.access.sign_in(f"somebody{number}", "wrong password", address=HERE)
    with pytest.raises(Retry):
        await house.access.sign_in("another", "wrong password", address=HERE)


async def test_signing_in_rightly_is_no_guessing(house: House) -> None:
    await house.somebody("ann")
    for _ in range(PER_LOGIN + 2):
        assert await house.access.sign_in("ann", PASSWORD, address=HERE)


async def test_what_is_typed_does_not_become_a_name_in_redis(house: House, redis: Redis) -> None:
    with pytest.raises(Reject):
        await house.access.sign_in("my.secret.typed.here", PASSWORD, address=HERE)
    assert "secret" not in str(await redis.keys("*"))


async def test_better_parameters_come_with_the_next_sign_in(house: House, redis: Redis) -> None:
    await house.somebody("ann")
    better = Passwords(PasswordHasher(time_cost=2, memory_cost=8, parallelism=1))
    access = Access(house.database, redis, house.clock, passwords=better)
    assert await access.sign_in("ann", PASSWORD, address=HERE)
    [(stored,)] = await house.rows("SELECT password_hash FROM users WHERE login = 'ann'")
    assert "t=2" in stored
    assert await access.sign_in("ann", PASSWORD, address=HERE)
