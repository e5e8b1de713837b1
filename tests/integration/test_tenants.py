"""A tenant sees only its own: PostgreSQL itself filters, for every table there is (G7; LESSONS 17)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    insert,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.dialects.postgresql import UUID as UUID_COLUMN
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from telegram_assistant.stores.postgres.database import TENANT_ROLE, as_tenant
from tests.integration.schema import read_schema

pytestmark = pytest.mark.integration

NO_HOSTS: frozenset[str] = frozenset()
PRIVATE_TO_THE_SYSTEM = {
    "budget_calls",
    "budget_spending",
    "job_runs",
    "leases",
    "model_results",
    "outbox",
    "search_terms",
    "upkeep",
}
NUMBERS = count(1000)
MADE_UP: dict[type, Any] = {
    UUID_COLUMN: uuid4,
    BigInteger: lambda: next(NUMBERS),
    Integer: lambda: next(NUMBERS),
    Float: lambda: 1.5,
    Text: lambda: f"text {next(NUMBERS)}",
    DateTime: lambda: datetime.now(UTC),
    LargeBinary: lambda: b"sealed",
    JSONB: dict,
    ARRAY: list,
}


@dataclass
class World:
    """Rows of two tenants, and who of them may see which."""

    schema: MetaData
    ids: dict[str, UUID] = field(default_factory=dict)
    users: dict[str, UUID] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=dict)
    seen_by: dict[str, dict[tuple[Any, ...], frozenset[str]]] = field(default_factory=lambda: defaultdict(dict))

    async def add(self, connection: AsyncConnection, into: str, seers: frozenset[str], **values: Any) -> Any:
        """Insert a row with made-up values where it needs more than is given; its first key comes back."""
        table = self.schema.tables[into]
        needed = {column.name: make_up(column) for column in table.columns if is_needed(column)}
        statement = insert(table).values({**needed, **values}).returning(*table.primary_key.columns)
        key = tuple((await connection.execute(statement)).one())
        self.seen_by[into][key] = seers
        return key[0]


def is_needed(column: Column[Any]) -> bool:
    return not (column.nullable or column.server_default is not None or column.identity is not None)


def make_up(column: Column[Any]) -> Any:
    if column.name in (words := {"role": "member", "album_kind": "photo", "purpose": "invite"}):
        return words[column.name]
    return next(make() for kind, make in MADE_UP.items() if isinstance(column.type, kind))


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    world = World(await read_schema(database))
    async with database.begin() as connection:
        for name in ("ann", "bob"):
            seer = frozenset({name})
            world.ids[name] = await world.add(connection, "tenants", seer, name=name)
            world.users[name] = await world.add(connection, "users", seer, tenant_id=world.ids[name])
        ann, bob = world.ids["ann"], world.ids["bob"]
        for title, owner, seers in (
            ("of both", None, {"ann", "bob"}),
            ("of ann", None, {"ann"}),
            ("of bob", None, {"bob"}),
            ("of nobody", None, set()),
            ("private of ann", ann, {"ann"}),
            ("private of bob", bob, {"bob"}),
        ):
            await add_channel(world, connection, title, owner, frozenset(seers))
        # A stray row must not open a private channel.
        await subscribe(world, connection, "ann", world.channels["private of bob"])
        for name in ("ann", "bob"):
            await add_tenants_rows(world, connection, name)
        for name in PRIVATE_TO_THE_SYSTEM:
            await world.add(connection, name, NO_HOSTS)
    return world


async def add_channel(
    world: World, connection: AsyncConnection, title: str, owner: UUID | None, seers: frozenset[str]
) -> None:
    """A channel with one row in every table that hangs on channels, posts and media."""
    tables = world.schema.tables
    channel = await world.add(connection, "channels", seers, tenant_id=owner, title=title)
    world.channels[title] = channel
    for name in seers:
        await subscribe(world, connection, name, channel)
    keys: dict[str, Any] = {"channels": channel}
    for name in ("media_objects", "posts", "media_groups", "web_pages"):
        keys[name] = await world.add(connection, name, seers, **referring(tables[name], keys))
    for table in world.schema.sorted_tables:
        if table.name not in keys and "tenant_id" not in table.columns and referring(table, keys):
            await world.add(connection, table.name, seers, **referring(table, keys))


def referring(table: Table, keys: dict[str, Any]) -> dict[str, Any]:
    """The columns of a table that refer to rows of others, with the keys of these."""
    found = {key.parent.name: keys.get(key.column.table.name) for key in table.foreign_keys}
    return {name: value for name, value in found.items() if value is not None}


async def subscribe(world: World, connection: AsyncConnection, name: str, channel: int) -> None:
    row = {"tenant_id": world.ids[name], "user_id": world.users[name], "channel_id": channel}
    await world.add(connection, "subscriptions", frozenset({name}), **row)


async def add_tenants_rows(world: World, connection: AsyncConnection, name: str) -> None:
    keys: dict[str, Any] = {"tenants": world.ids[name], "users": world.users[name]}
    keys["channels"] = next(key[0] for key, seers in world.seen_by["channels"].items() if name in seers)
    keys["posts"] = next(key[0] for key, seers in world.seen_by["posts"].items() if name in seers)
    for table in world.schema.sorted_tables:
        others = {"users", "channels", "subscriptions", *PRIVATE_TO_THE_SYSTEM}
        if "tenant_id" in table.columns and table.name not in others:
            keys[table.name] = await world.add(connection, table.name, frozenset({name}), **referring(table, keys))


async def visible(connection: AsyncConnection, table: Table) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in await connection.execute(select(*table.primary_key.columns))}


def test_every_table_is_covered(world: World) -> None:
    assert set(world.seen_by) == set(world.schema.tables), "say in this file who sees the rows of a new table"


@pytest.mark.parametrize("name", ["ann", "bob"])
async def test_a_tenant_sees_its_own_rows_only(database: AsyncEngine, world: World, name: str) -> None:
    async with as_tenant(database, world.ids[name]) as connection:
        for table in world.schema.sorted_tables:
            rows = world.seen_by[table.name]
            own = {key for key, seers in rows.items() if name in seers}
            assert len(own) < len(rows), f"nothing to hide in {table.name}"
            assert own or table.name in PRIVATE_TO_THE_SYSTEM
            assert await visible(connection, table) == own, table.name


async def test_without_a_tenant_nothing_shows(database: AsyncEngine, world: World) -> None:
    assert world.ids
    async with database.begin() as connection:
        await connection.execute(text(f"SET LOCAL ROLE {TENANT_ROLE}"))
        for table in world.schema.sorted_tables:
            assert await visible(connection, table) == set(), table.name


async def test_an_unknown_tenant_sees_nothing(database: AsyncEngine, world: World) -> None:
    assert world.ids
    async with as_tenant(database, uuid4()) as connection:
        for table in world.schema.sorted_tables:
            assert await visible(connection, table) == set(), table.name


async def test_the_role_ends_with_its_transaction(database: AsyncEngine, world: World) -> None:
    """The pool hands the same connection to the system next."""
    async with as_tenant(database, world.ids["ann"]):
        pass
    async with database.connect() as connection:
        assert (await connection.execute(text("SELECT current_user"))).scalar_one() != TENANT_ROLE
        assert (await connection.execute(text("SELECT current_setting('app.tenant_id', true)"))).scalar_one() in (
            None,
            "",
        )
        assert len(await visible(connection, world.schema.tables["tenants"])) == 3


async def attempt(database: AsyncEngine, world: World, tenant: UUID, table: str, **values: Any) -> None:
    async with as_tenant(database, tenant) as connection:
        await connection.execute(insert(world.schema.tables[table]).values(values))


async def test_a_tenant_subscribes_its_own_user(database: AsyncEngine, world: World) -> None:
    ann, channel = world.ids["ann"], world.channels["of nobody"]
    await attempt(database, world, ann, "subscriptions", tenant_id=ann, user_id=world.users["ann"], channel_id=channel)
    async with as_tenant(database, ann) as connection:
        assert (channel,) in await visible(connection, world.schema.tables["channels"])
    await attempt(
        database, world, ann, "channel_requests", tenant_id=ann, user_id=world.users["ann"], reference="@durov"
    )


@pytest.mark.parametrize(
    "tenant,user",
    [("bob", "bob"), ("bob", "ann"), ("ann", "bob")],
    ids=["for the other", "into the other", "with the other's user"],
)
async def test_a_tenant_cannot_write_for_another(database: AsyncEngine, world: World, tenant: str, user: str) -> None:
    row = {"tenant_id": world.ids[tenant], "user_id": world.users[user]}
    with pytest.raises(DBAPIError, match="row-level security"):
        await attempt(database, world, world.ids["ann"], "subscriptions", **row, channel_id=world.channels["of nobody"])
    with pytest.raises(DBAPIError, match="row-level security"):
        await attempt(database, world, world.ids["ann"], "channel_requests", **row, reference="@durov")


async def test_a_tenant_cannot_hand_its_rows_to_another(database: AsyncEngine, world: World) -> None:
    for column, value in (("tenant_id", world.ids["bob"]), ("user_id", world.users["bob"])):
        statement = f"UPDATE channel_requests SET {column} = :value"  # noqa: S608 - constants of this test
        with pytest.raises(DBAPIError, match="row-level security"):
            async with as_tenant(database, world.ids["ann"]) as connection:
                await connection.execute(text(statement), {"value": value})


async def test_a_tenant_deletes_only_its_own(database: AsyncEngine, world: World) -> None:
    async with as_tenant(database, world.ids["ann"]) as connection:
        await connection.execute(text("DELETE FROM subscriptions"))
        await connection.execute(text("DELETE FROM channel_requests"))
    async with as_tenant(database, world.ids["bob"]) as connection:
        assert len(await visible(connection, world.schema.tables["subscriptions"])) == 3
        assert len(await visible(connection, world.schema.tables["channel_requests"])) == 1


@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {} CASCADE", "INSERT INTO {} DEFAULT VALUES"])
async def test_a_tenant_writes_nowhere_else(database: AsyncEngine, world: World, statement: str) -> None:
    for table in sorted(set(world.schema.tables) - {"subscriptions", "channel_requests"}):
        with pytest.raises(DBAPIError, match="permission denied"):
            async with as_tenant(database, world.ids["ann"]) as connection:
                await connection.execute(text(statement.format(table)))
