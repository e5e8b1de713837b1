"""One-time links: for one person, once, for a day; the first admin comes in by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from telegram_assistant.access.service import SPENT, Access
from telegram_assistant.domain.access import SYSTEM_TENANT, Role
from telegram_assistant.errors import Reject

pytestmark = pytest.mark.integration

PASSWORD = "correct horse battery staple"
HERE = "192.0.2.7"
House = Any  # of conftest.py, which cannot be imported


async def test_the_first_admin(access: Access) -> None:
    token = await access.first_link()
    assert token is not None
    link = await access.link(token)
    assert link is not None
    assert (str(link.tenant_id), link.login, link.purpose) == (SYSTEM_TENANT, None, "invite")
    cookie = await access.redeem(token, "Root", PASSWORD)
    caller = await access.by_session(cookie)
    assert caller is not None
    assert caller.is_admin
    assert str(caller.tenant_id) == SYSTEM_TENANT
    assert await access.first_link() is None, "somebody is in"
    assert await access.sign_in("root", PASSWORD, address=HERE)


async def test_a_new_start_replaces_the_first_link(access: Access, house: House) -> None:
    first, second = await access.first_link(), await access.first_link()
    assert first is not None
    assert second is not None
    assert await access.link(first) is None
    with pytest.raises(Reject, match=SPENT):
        await access.redeem(first, "root", PASSWORD)
    await access.redeem(second, "root", PASSWORD)
    assert len(await house.rows("SELECT 1 FROM users WHERE role = 'admin'")) == 1


async def test_starts_at_the_same_moment_leave_one_link(access: Access, house: House) -> None:
    made = await asyncio.gather(*(access.first_link() for _ in range(5)))
    good = [token for token in made if token is not None and await access.link(token)]
    assert len(good) == 1
    assert len(await house.rows("SELECT 1 FROM users WHERE role = 'admin'")) == 1


async def test_a_password_of_any_tenant_ends_the_first_link(access: Access, house: House) -> None:
    await house.somebody("ann")
    assert await access.first_link() is None


async def test_a_link_is_good_for_a_day(house: House) -> None:
    invitation = await house.access.people.invite(house.operator, name="Ann")
    house.clock.pass_(hours=24)
    assert await house.access.link(invitation.token) is None
    with pytest.raises(Reject, match=SPENT):
        await house.access.redeem(invitation.token, "ann", PASSWORD)


async def test_a_link_is_good_once(house: House) -> None:
    invitation = await house.access.people.invite(house.operator, name="Ann")
    tries = [house.access.redeem(invitation.token, f"ann{n}", PASSWORD) for n in range(4)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Reject", "Reject", "Reject", "str"]
    assert len(await house.rows("SELECT 1 FROM sessions")) == 1
    assert len(await house.rows("SELECT 1 FROM users WHERE password_hash IS NOT NULL")) == 1


async def test_what_is_wrong_with_the_form_does_not_spend_it(house: House) -> None:
    await house.somebody("bob")
    token = (await house.access.people.invite(house.operator, name="Ann")).token
    for login, password, why in (
        ("ann", "short", "at least 10"),
        ("a", PASSWORD, "3 to 100"),
        (None, PASSWORD, "Choose a name"),
        ("BOB", PASSWORD, "taken"),
    ):
        with pytest.raises(Reject, match=why):
            await house.access.redeem(token, login, password)
    assert await house.access.redeem(token, "ann", PASSWORD)


async def test_another_password_ends_every_session(house: House) -> None:
    ann, cookie = await house.somebody("ann")
    invitation = await house.access.people.link(house.operator, ann.user_id)
    assert await house.access.by_session(cookie) is not None, "until it is used nothing changes"
    link = await house.access.link(invitation.token)
    assert (link.purpose, link.login) == ("reset", "ann")
    fresh = await house.access.redeem(invitation.token, None, "another good password")
    assert await house.access.by_session(cookie) is None
    assert await house.access.by_session(fresh) is not None
    with pytest.raises(Reject):
        await house.access.sign_in("ann", PASSWORD, address=HERE)
    assert await house.access.sign_in("ann", "another good password", address=HERE)


async def test_a_disabled_users_link_is_no_way_in(house: House) -> None:
    invitation = await house.access.people.invite(house.operator, name="Ann")
    await house.access.people.change(house.operator, invitation.user.id, disabled=True)
    assert await house.access.link(invitation.token) is None
    with pytest.raises(Reject, match="disabled"):
        await house.access.people.link(house.operator, invitation.user.id)


async def test_nothing_opens_with_made_up_tokens(house: House) -> None:
    for token in ("", "x", "\0", "\ud800", "x" * 10_000, "a" * 43):
        assert await house.access.link(token) is None
        with pytest.raises(Reject, match=SPENT):
            await house.access.redeem(token, "ann", PASSWORD, address=token[:5])


async def test_secrets_are_nowhere_in_the_tables(house: House) -> None:
    await house.somebody("boss", Role.ADMIN)
    invitation = await house.access.people.invite(house.operator, name="Ann")
    ann, cookie = await house.somebody("eve")
    key = await house.access.people.create_key(ann, name="script")
    tables = ("users", "api_keys", "sessions", "one_time_links", "audit_log")
    dump = str([await house.rows(f"SELECT to_jsonb(t)::text FROM {table} t") for table in tables])  # noqa: S608 - ours
    assert "key_created" in dump
    for secret in (invitation.token, cookie, key.token, key.token[-43:], PASSWORD):
        assert secret not in dump
