"""`tga tenants|users|keys`: who may come in, from the machine itself; and leaving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.service import Access
from telegram_assistant.domain.access import Role
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.wiring.runtime import utc_now

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported
PASSWORD = "correct horse battery staple"


@pytest.fixture
def access(database: AsyncEngine, redis: Redis) -> Access:
    return Access(database, redis, utc_now)


async def test_from_a_tenant_to_a_key_that_works(tga: Tga, access: Access) -> None:
    assert (await tga("tenants", "add", "newsroom")).code == 0
    made = await tga(
        "users", "add", "Анна [b]Петрова", "--admin", "--tenant", "newsroom", "--email", "Anna@example.org"
    )
    address = made.out.split()[-1]
    assert address.startswith("http://127.0.0.1:8000/welcome?token=")
    assert "Анна [b]Петрова" in made.words
    assert "invited" in (await tga("users", "list", "--tenant", "newsroom")).words
    await access.redeem(address.partition("token=")[2], "anna", PASSWORD)
    listed = (await tga("users", "list", "--tenant", "newsroom")).words
    assert "anna" in listed
    assert "active" in listed
    made = await tga("keys", "create", "anna", "nightly export", "--days", "30", "--tenant", "newsroom")
    key = made.out.split()[-1]
    caller = await access.by_key(key)
    assert caller is not None
    assert (caller.tenant, caller.role) == ("newsroom", Role.MEMBER)
    keys = await tga("keys", "list", "--tenant", "newsroom")
    assert "nightly" in keys.words
    assert f"{key[:12]}_" in keys.words, "whole, to revoke it by"
    assert key not in keys.out
    assert (await tga("keys", "revoke", key[:12], "--tenant", "newsroom")).code == 0
    assert await access.by_key(key) is None
    assert "revoked" in (await tga("keys", "list", "--tenant", "newsroom")).words
    assert "newsroom │ 1" in (await tga("tenants", "list")).words


async def test_a_lost_password(tga: Tga, access: Access) -> None:
    first = (await tga("users", "add", "Boss", "--admin")).out.split()[-1]
    await access.redeem(first.partition("token=")[2], "boss", PASSWORD)
    again = (await tga("users", "link", "BOSS")).out.split()[-1]
    await access.redeem(again.partition("token=")[2], None, "another good password")
    assert await access.sign_in("boss", "another good password", address="")


async def test_roles_and_the_last_admin(tga: Tga, access: Access) -> None:
    for name in ("boss", "anna"):
        link = (await tga("users", "add", name.title(), *(["--admin"] if name == "boss" else []))).out.split()[-1]
        await access.redeem(link.partition("token=")[2], name, PASSWORD)
    for arguments in (("disable", "boss"), ("role", "boss", "member")):
        refused = await tga("users", *arguments)
        assert refused.code == 1
        assert "last admin" in refused.out
    assert (await tga("users", "role", "anna", "admin")).code == 0
    assert (await tga("users", "disable", "boss")).code == 0
    assert "disabled" in (await tga("users", "list")).words
    assert (await tga("users", "disable", "boss", "--enable")).code == 0


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("tenants", "add", "News Room"), "lower-case"),
    (("tenants", "add", "system"), "already"),
    (("tenants", "erase", "nobody", "--yes"), "no tenant nobody"),
    (("tenants", "erase", "system", "--yes"), "cannot be erased"),
    (("users", "list", "--tenant", "nobody"), "no tenant nobody"),
    (("users", "disable", "nobody"), "no user nobody in system"),
    (("users", "disable", "system"), "no user system"),
    (("users", "role", "anna", "king"), "admin or member"),
    (("users", "add", ""), "1 to 100"),
    (("keys", "create", "nobody", "export"), "no user nobody"),
    (("keys", "revoke", "tga_aaaaaaaa"), "no key tga_aaaaaaaa_"),
]


async def test_what_is_wrong_is_said(tga: Tga, subtests: pytest.Subtests) -> None:
    for arguments, told in WRONG:
        with subtests.test(arguments=arguments, told=told):
            answer = await tga(*arguments)
            assert answer.code == 1
            assert told in answer.out


async def test_every_command_gives_an_example(tga: Tga) -> None:
    commands = {
        "tenants": ("add", "list", "erase"),
        "users": ("add", "list", "disable", "role", "link"),
        "keys": ("create", "list", "revoke"),
    }
    for group, names in commands.items():
        for name in names:
            assert f"Example: tga {group} {name}" in (await tga(group, name, "--help")).words


async def test_a_tenant_leaves(tga: Tga, access: Access, database: AsyncEngine, folder: Path) -> None:
    await tga("tenants", "add", "newsroom")
    link = (await tga("users", "add", "Anna", "--admin", "--tenant", "newsroom")).out.split()[-1]
    await access.redeem(link.partition("token=")[2], "anna", PASSWORD)
    tenant = await access.people.tenant("newsroom")
    assert tenant is not None
    another = EdgeVectors(folder / "data" / "vectors")
    await another.current(tenant.id)  # as tga up holds it
    refused = await tga("tenants", "erase", "newsroom", "--yes")
    await another.close()
    assert refused.code == 1
    assert "stop it, then erase again" in refused.out
    assert await access.people.tenant("newsroom") is not None
    erased = await tga("tenants", "erase", "newsroom", "--yes")
    assert erased.code == 0
    assert "1 users" in erased.out
    assert await access.people.tenant("newsroom") is None
    async with database.connect() as connection:
        left = await connection.execute(text("SELECT count(*) FROM users WHERE login = 'anna'"))
        assert left.scalar_one() == 0


async def test_the_first_link_is_printed_again_until_a_password_is_chosen(tga: Tga, database: AsyncEngine) -> None:
    printed = await tga("link")
    assert "/welcome?token=" in printed.out
    async with database.begin() as connection:
        await connection.execute(text("UPDATE users SET password_hash = 'x'"))
    assert "tga users link NAME" in (await tga("link")).out
