"""Passwords: slow to guess, the same work for nobody as for somebody, better parameters as they come."""

from __future__ import annotations

from typing import Literal

import pytest
from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST

from telegram_assistant.access.credentials import LONGEST_PASSWORD, Passwords
from telegram_assistant.errors import Reject

pytestmark = pytest.mark.unit

PASSWORD = "correct horse battery staple"


class Counting(PasswordHasher):
    """The real hasher, cheap; counts how often it is asked."""

    def __init__(self, time_cost: int = 1) -> None:
        super().__init__(time_cost=time_cost, memory_cost=CHEAPEST.memory_cost, parallelism=1)
        self.verified: list[str | bytes] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 - the library's name
        self.verified.append(hash)
        return super().verify(hash, password)


async def test_right_and_wrong() -> None:
    passwords = Passwords(Counting())
    known = await passwords.hash(PASSWORD)
    assert known.startswith("$argon2id$")
    assert PASSWORD not in known
    assert (await passwords.verify(PASSWORD, known)).right
    assert not (await passwords.verify("correct horse battery stapl", known)).right
    assert not (await passwords.verify("", known)).right


async def test_the_usual_parameters_are_those_of_the_rfc() -> None:
    hasher = PasswordHasher()
    assert hasher.memory_cost >= 64 * 1024
    assert hasher.time_cost >= 3


async def test_nobody_costs_as_much_as_somebody() -> None:
    """The same function is called with a hash of the same parameters, and the answer is no."""
    hasher = Counting()
    passwords = Passwords(hasher)
    known = await passwords.hash(PASSWORD)
    assert (await passwords.verify(PASSWORD, known)).right
    assert not (await passwords.verify(PASSWORD, None)).right
    assert len(hasher.verified) == 2
    real, made_up = (str(one).rsplit("$", 2)[0] for one in hasher.verified)
    assert real == made_up  # kind, version and parameters


async def test_a_hash_of_other_parameters_is_made_anew() -> None:
    old = await Passwords(Counting()).hash(PASSWORD)
    passwords = Passwords(Counting(time_cost=2))
    verdict = await passwords.verify(PASSWORD, old)
    assert verdict.right
    assert verdict.new_hash is not None
    assert "t=2" in verdict.new_hash
    assert (await passwords.verify(PASSWORD, verdict.new_hash)).new_hash is None
    assert (await passwords.verify("wrong password", old)).new_hash is None


@pytest.mark.parametrize("password", ["", "short", "123456789", "x" * (LONGEST_PASSWORD + 1), "a" * 20, "ababababab"])
async def test_poor_passwords_are_refused(password: str) -> None:
    with pytest.raises(Reject, match="password"):
        await Passwords(Counting()).hash(password)


@pytest.mark.parametrize(
    "password", ["пароль из слов", "\0\0\0 nul is a character", "\ud800 lone surrogate", "xyz " * 250]
)
async def test_odd_passwords_work(password: str) -> None:
    passwords = Passwords(Counting())
    known = await passwords.hash(password)
    assert (await passwords.verify(password, known)).right
    assert not (await passwords.verify(password + "!", known)).right


async def test_a_damaged_hash_lets_nobody_in() -> None:
    passwords = Passwords(Counting())
    for damaged in ("", "x", "$argon2id$v=19$m=8", "plain"):
        assert not (await passwords.verify(damaged, damaged)).right
