"""The rows of accounts: sealed sessions, verdicts, floods and access hashes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.errors import Fatal, Reject
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.sealed import Sealer

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SESSION = "1ApWapzMBu-a-session-in-clear"


@pytest.fixture
def store(database: AsyncEngine) -> TelegramAccounts:
    return TelegramAccounts(database, Sealer("the key of these tests"))


async def add(store: TelegramAccounts, **fields: Any) -> Any:
    return await store.add(**{"telegram_user_id": 7, "name": "Ann", "session": SESSION, **fields})


async def test_a_session_is_stored_sealed_and_comes_back(store: TelegramAccounts, database: AsyncEngine) -> None:
    account = await add(store)
    assert (account.status, account.last_error, account.floods) == ("active", None, {})
    assert store.session(account) == SESSION
    async with database.connect() as connection:
        row = (await connection.execute(text("SELECT telegram_accounts::text, session FROM telegram_accounts"))).one()
    assert SESSION.encode() not in row.session
    assert SESSION not in row[0]
    assert SESSION.encode().hex() not in row[0]
    assert SESSION not in repr(account)
    assert row.session.hex() not in repr(account)
    assert str(row.session) not in repr(account)


async def test_another_key_does_not_open_it(store: TelegramAccounts, database: AsyncEngine) -> None:
    account = await add(store)
    with pytest.raises(Fatal, match="TGA_SECRET_KEY"):
        TelegramAccounts(database, Sealer("another")).session(account)


async def test_logging_in_again_renews_the_account_and_keeps_its_floods(store: TelegramAccounts) -> None:
    first = await add(store)
    until = NOW + timedelta(hours=1)
    await store.remember_flood(first.id, "messages.getHistory", until=until, now=NOW)
    account = await store.get(first.id)
    assert account is not None
    await store.end(_ended(account, "revoked", "logged out"))
    again = await add(store, name="Ann B.", session="another")
    assert again.id == first.id
    assert (again.status, again.last_error, again.name) == ("active", None, "Ann B.")
    assert again.floods == {"messages.getHistory": until}
    assert store.session(again) == "another"
    assert [one.id for one in await store.all()] == [first.id]


async def test_a_verdict_on_an_old_session_does_not_hit_the_new_one(store: TelegramAccounts) -> None:
    old = await add(store)
    new = await add(store, session="another")
    await store.end(_ended(old, "revoked", "logged out"))
    assert (await store.get(new.id)) == new
    await store.end(_ended(new, "banned", "x" * 1000))
    ended = await store.get(new.id)
    assert ended is not None
    assert ended.status == "banned"
    assert ended.last_error == "x" * 500


async def test_an_account_of_another_tenant_is_not_taken_over(store: TelegramAccounts, database: AsyncEngine) -> None:
    tenant = uuid4()
    async with database.begin() as connection:
        await connection.execute(
            text("INSERT INTO tenants (id, name) VALUES (CAST(:id AS uuid), 'other')"), {"id": str(tenant)}
        )
    mine = await add(store)
    with pytest.raises(Reject, match="another tenant"):
        await add(store, tenant_id=tenant, session="stolen")
    kept = await store.get(mine.id)
    assert kept is not None
    assert store.session(kept) == SESSION
    assert (await add(store, telegram_user_id=8, tenant_id=tenant)).tenant_id == tenant


async def test_floods_only_grow_and_are_dropped_when_over(store: TelegramAccounts) -> None:
    account = await add(store)
    long, short = NOW + timedelta(hours=2), NOW + timedelta(minutes=1)
    await asyncio.gather(
        store.remember_flood(account.id, "a", until=long, now=NOW),
        store.remember_flood(account.id, "b", until=short, now=NOW),
        store.remember_flood(account.id, "a", until=short, now=NOW),
    )
    assert _floods(await store.get(account.id)) == {"a": long, "b": short}
    later = NOW + timedelta(minutes=30)
    await store.remember_flood(account.id, "c", until=later + timedelta(minutes=1), now=later)
    assert set(_floods(await store.get(account.id))) == {"a", "c"}
    await store.remember_flood(str(uuid4()), "a", until=long, now=NOW)  # removed meanwhile: nothing happens


async def test_hashes_belong_to_an_account_and_go_with_it(store: TelegramAccounts, database: AsyncEngine) -> None:
    channels = Channels(database)
    ann, bob = await add(store), await add(store, telegram_user_id=8, name="Bob")
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title) VALUES (1, 'One'), (2, 'Two')"))
    lowest = -(2**63)
    await store.remember_hash(ann.id, 1, lowest)
    await store.remember_hash(bob.id, 1, 2**63 - 1)
    assert await _hashes(channels, 1) == {ann.id: lowest, bob.id: 2**63 - 1}
    assert await _hashes(channels, 2) == {}
    await store.forget_hash(ann.id, 1, 5)  # it was another one by then
    assert (await _hashes(channels, 1))[ann.id] == lowest
    await store.forget_hash(ann.id, 1, lowest)
    assert await _hashes(channels, 1) == {bob.id: 2**63 - 1}
    assert await store.remove(bob.id)
    assert await _hashes(channels, 1) == {}
    assert await store.get(bob.id) is None
    assert not await store.remove(bob.id)


async def _hashes(channels: Channels, channel_id: int) -> dict[str, int]:
    channel = await channels.get(channel_id)
    assert channel is not None
    return channel.access_hash


def _floods(account: Any) -> dict[str, datetime]:
    return dict(account.floods)


def _ended(account: Any, status: str, error: str) -> Any:
    return replace(account, status=status, last_error=error)
