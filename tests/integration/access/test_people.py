"""People and keys: within their tenant, never more rights than given, always an admin left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.credentials import new_key
from telegram_assistant.access.people import MOST_KEYS
from telegram_assistant.access.service import Access
from telegram_assistant.domain.access import Role, Via
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.database import as_tenant

pytestmark = pytest.mark.integration

House = Any  # of conftest.py, which cannot be imported


async def test_a_key_calls_as_its_user(house: House) -> None:
    ann, _ = await house.somebody("ann")
    made = await house.access.people.create_key(ann, name=" my  script ")
    assert made.token not in repr(made)
    caller = await house.access.by_key(made.token)
    assert (caller.user_id, caller.tenant_id, caller.role, caller.via) == (
        ann.user_id,
        ann.tenant_id,
        Role.MEMBER,
        Via.KEY,
    )
    [listed] = await house.access.people.keys(ann)
    assert (listed.name, listed.prefix) == ("my script", made.token[4:12])
    assert listed.last_used_at == house.clock()


@pytest.mark.parametrize("change", ["secret", "prefix", "all"])
async def test_a_key_that_is_not_exactly_it_is_nothing(house: House, change: str) -> None:
    ann, _ = await house.somebody("ann")
    token = (await house.access.people.create_key(ann, name="script")).token
    last = "a" if token[-1] != "a" else "b"
    other = {"secret": token[:-1] + last, "prefix": "tga_00000000" + token[12:], "all": new_key().token}[change]
    assert await house.access.by_key(other) is None
    for nothing in ("", "tga_", token[:-1], f"{token} ", "\0", "\ud800"):
        assert await house.access.by_key(nothing) is None


async def test_a_revoked_key_stops_at_once_everywhere(house: House, redis: Redis) -> None:
    ann, _ = await house.somebody("ann")
    made = await house.access.people.create_key(ann, name="script")
    elsewhere = Access(house.database, redis, house.clock)
    assert await elsewhere.by_key(made.token) is not None
    revoked = await house.access.people.revoke_key(ann, made.key.id)
    assert revoked.revoked_at == house.clock()
    assert await house.access.by_key(made.token) is None
    assert await elsewhere.by_key(made.token) is None
    house.clock.pass_(hours=1)
    again = await house.access.people.revoke_key(ann, made.key.id)
    assert again.revoked_at == revoked.revoked_at


async def test_a_key_ends_when_it_was_said(house: House) -> None:
    ann, _ = await house.somebody("ann")
    until = house.clock() + timedelta(days=30)
    made = await house.access.people.create_key(ann, name="script", expires=until)
    house.clock.pass_(days=29)
    assert await house.access.by_key(made.token) is not None
    house.clock.pass_(days=1)
    assert await house.access.by_key(made.token) is None
    with pytest.raises(Reject, match="over already"):
        await house.access.people.create_key(ann, name="script", expires=until)


async def test_a_key_made_with_a_key_does_not_outlive_it(house: House) -> None:
    ann, _ = await house.somebody("ann")
    people = house.access.people
    until = house.clock() + timedelta(days=30)
    ending = await house.access.by_key((await people.create_key(ann, name="lent", expires=until)).token)
    for later in (None, until + timedelta(seconds=1)):
        with pytest.raises(Reject, match=f"cannot outlive it, and yours ends at {until:%Y-%m-%d %H:%M} UTC: say fewer"):
            await people.create_key(ending, name="for ever", expires=later)
    assert (await people.create_key(ending, name="no longer", expires=until)).key.expires_at == until
    lasting = await house.access.by_key((await people.create_key(ann, name="my own")).token)
    assert (await people.create_key(lasting, name="for ever")).key.expires_at is None


async def test_a_key_never_has_more_rights_than_its_user_has_now(house: House) -> None:
    await house.somebody("boss", Role.ADMIN)
    ann, _ = await house.somebody("ann", Role.ADMIN)
    strong = (await house.access.people.create_key(ann, name="strong", role=Role.ADMIN)).token
    weak = (await house.access.people.create_key(ann, name="weak")).token
    assert (await house.access.by_key(strong)).role is Role.ADMIN
    assert (await house.access.by_key(weak)).role is Role.MEMBER
    with pytest.raises(Reject, match="more rights"):
        await house.access.people.create_key(await house.access.by_key(weak), name="x", role=Role.ADMIN)
    await house.access.people.change(house.operator, ann.user_id, role=Role.MEMBER)
    assert (await house.access.by_key(strong)).role is Role.MEMBER


async def test_members_make_no_admin_keys_and_nobody_a_systems_one(house: House) -> None:
    ann, _ = await house.somebody("ann")
    boss, _ = await house.somebody("boss", Role.ADMIN)
    for caller, role in ((ann, Role.ADMIN), (ann, Role.SYSTEM), (boss, Role.SYSTEM), (house.operator, Role.MEMBER)):
        with pytest.raises(Reject):
            await house.access.people.create_key(caller, name="script", role=role)


async def test_keys_are_not_without_number(house: House) -> None:
    ann, _ = await house.somebody("ann")
    for number in range(MOST_KEYS):
        await house.access.people.create_key(ann, name=f"key {number}")
    with pytest.raises(Reject, match="already"):
        await house.access.people.create_key(ann, name="one more")
    first = await house.access.people.keys(ann, limit=60)
    rest = await house.access.people.keys(ann, limit=60, after=first[-1].id)
    assert len({key.id for key in first + rest}) == MOST_KEYS
    await house.access.people.revoke_key(ann, first[0].id)
    assert await house.access.people.create_key(ann, name="instead")


async def test_whose_keys_one_may_revoke(house: House) -> None:
    ann, _ = await house.somebody("ann")
    bob, _ = await house.somebody("bob")
    boss, _ = await house.somebody("boss", Role.ADMIN)
    made = await house.access.people.create_key(ann, name="script")
    assert await house.access.people.keys(bob) == []
    assert await house.access.people.revoke_key(bob, made.key.id) is None
    assert await house.access.by_key(made.token) is not None
    assert await house.access.people.revoke_key(boss, made.key.id) is not None
    assert await house.access.by_key(made.token) is None


async def test_another_tenant_is_as_if_it_were_not_there(house_of: Callable[..., Any]) -> None:
    ours, theirs = await house_of("ours"), await house_of("theirs")
    boss, _ = await ours.somebody("boss", Role.ADMIN)
    eve, _ = await theirs.somebody("eve", Role.ADMIN)
    made = await ours.access.people.create_key(boss, name="script")
    people = ours.access.people
    assert await people.revoke_key(eve, made.key.id) is None
    assert await people.user(eve, boss.user_id) is None
    assert await people.named(eve, "boss") is None
    assert await people.change(eve, boss.user_id, role=Role.MEMBER) is None
    assert await people.change(eve, boss.user_id, disabled=True) is None
    assert await people.link(eve, boss.user_id) is None
    assert [user.name for user in await people.users(eve)] == ["Eve"]
    assert await people.keys(eve) == []
    assert await people.users(eve, after=boss.user_id) == [], "nor as a place to go on from"
    assert all(entry.user_id != boss.user_id for entry in await people.audit(eve))
    assert (await ours.access.by_key(made.token)).name == "Boss"


async def test_members_manage_nobody(house: House) -> None:
    ann, _ = await house.somebody("ann")
    people = house.access.people
    for attempt in (
        people.invite(ann, name="Friend"),
        people.change(ann, ann.user_id, role=Role.ADMIN),
        people.change(ann, ann.user_id, disabled=True),
        people.link(ann, ann.user_id),
        people.audit(ann),
    ):
        with pytest.raises(Reject, match="Only an admin"):
            await attempt


async def test_the_last_admin_stays(house: House) -> None:
    boss, _ = await house.somebody("boss", Role.ADMIN)
    people = house.access.people
    await people.invite(house.operator, name="Late", role=Role.ADMIN)  # never came in, so is no help
    for attempt in (
        people.change(boss, boss.user_id, disabled=True),
        people.change(house.operator, boss.user_id, role=Role.MEMBER),
    ):
        with pytest.raises(Reject, match="last admin"):
            await attempt
    second, _ = await house.somebody("second", Role.ADMIN)
    assert (await people.change(boss, boss.user_id, role=Role.MEMBER)).role is Role.MEMBER
    with pytest.raises(Reject, match="last admin"):
        await people.change(house.operator, second.user_id, disabled=True)


async def test_two_admins_cannot_demote_each_other(house: House) -> None:
    one, _ = await house.somebody("one", Role.ADMIN)
    two, _ = await house.somebody("two", Role.ADMIN)
    people = house.access.people
    outcomes = await asyncio.gather(
        people.change(one, two.user_id, role=Role.MEMBER),
        people.change(two, one.user_id, role=Role.MEMBER),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Reject) for outcome in outcomes) == 1
    assert len(await house.rows("SELECT 1 FROM users WHERE role = 'admin'")) == 1


async def test_the_system_is_no_person(house: House) -> None:
    people = house.access.people
    tenant = await people.tenant("system")
    system = (await house.rows("SELECT id FROM users WHERE role = 'system'"))[0][0]
    assert tenant.users == 0
    caller = house.operator.__class__(
        **{name: getattr(house.operator, name) for name in ("tenant", "user_id", "name", "role", "via")},
        tenant_id=tenant.id,
    )
    assert await people.users(caller) == []
    assert await people.link(caller, system) is None
    assert await people.change(caller, system, disabled=True) is None


async def test_an_address_belongs_to_one(house: House) -> None:
    await house.access.people.invite(house.operator, name="Ann", email="Ann@example.org")
    with pytest.raises(Reject, match="e-mail"):
        await house.access.people.invite(house.operator, name="Ann", email="ann@example.ORG")
    assert (await house.access.people.named(house.operator, "ANN@example.org")).name == "Ann"


async def test_what_was_done_is_written_down(house: House) -> None:
    boss, _ = await house.somebody("boss", Role.ADMIN)
    made = await house.access.people.create_key(boss, name="script")
    await house.access.people.revoke_key(boss, made.key.id)
    await house.access.record(boss, "channel_added", "@durov", {"odd": "\0\ud800x"})
    entries = await house.access.people.audit(boss)
    assert [entry.action for entry in entries] == [
        "channel_added",
        "key_revoked",
        "key_created",
        "password_set",
        "user_invited",
    ]
    assert (entries[0].user, entries[0].target) == ("Boss", "@durov")
    assert entries[3].address == "192.0.2.1"
    assert entries[-1].user is None, "the program itself"
    assert entries[1].details == {"prefix": made.key.prefix}
    rest = await house.access.people.audit(boss, limit=2, before=entries[1].id)
    assert [entry.id for entry in rest] == [entries[2].id, entries[3].id]


@pytest.mark.parametrize(
    "table,column",
    [
        ("users", "password_hash"),
        ("api_keys", "sha256"),
        ("sessions", "sha256"),
        ("sessions", "csrf"),
        ("one_time_links", "sha256"),
    ],
)
async def test_the_role_of_tenants_reads_no_hash(house: House, database: AsyncEngine, table: str, column: str) -> None:
    ann, _ = await house.somebody("ann")
    await house.access.people.create_key(ann, name="script")
    async with as_tenant(database, ann.tenant_id) as connection:
        assert (await connection.execute(text(f"SELECT count(id) FROM {table}"))).scalar_one()  # noqa: S608 - ours
    for what in (column, "*"):
        with pytest.raises(DBAPIError, match="permission denied"):
            async with as_tenant(database, ann.tenant_id) as connection:
                await connection.execute(text(f"SELECT {what} FROM {table}"))  # noqa: S608 - names of this test


async def test_unknown_ids(house: House) -> None:
    boss, _ = await house.somebody("boss", Role.ADMIN)
    assert await house.access.people.revoke_key(boss, uuid4()) is None
    assert await house.access.people.change(boss, uuid4(), role=Role.MEMBER) is None
