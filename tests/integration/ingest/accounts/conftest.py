"""Two accounts in a simulated Telegram, their rows in a real PostgreSQL, and pools that can be started again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.config import TelegramServer
from telegram_assistant.ingest.account_in_use import Budget
from telegram_assistant.ingest.accounts import AccountPool
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.accounts import Account, AccountLeases, TelegramAccounts
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.model import Channel as SimChannel
from telegram_simulator.model import Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.telethon_memory import forgotten_after

START = datetime(2024, 1, 1, tzinfo=UTC)
ANN, BOB = 1001, 1002
KEY = "the key of these tests"


class Clock:
    """Both clocks of a pool; the test moves them."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 5, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def ticks(self) -> float:
        return self.now.timestamp()

    def advance(self, **span: float) -> None:
        self.now += timedelta(**span)


class Scene:
    """Telegram, the stores, and what a test does with them."""

    def __init__(self, sim: Simulator, database: AsyncEngine) -> None:
        self.sim = sim
        self.world = sim.world
        self.database = database
        self.store = TelegramAccounts(database, Sealer(KEY))
        self.channels = Channels(database)
        self.clock = Clock()
        self.pools: list[AccountPool] = []
        self.opened: list[tuple[str, bool]] = []  # account, live
        self.request_timeout = 10.0

    async def log_in(self, user_id: int) -> str:
        name = self.world.users[user_id].first_name
        return (await self.store.add(telegram_user_id=user_id, name=name, session=self.sim.session(user_id))).id

    async def both(self) -> tuple[str, str]:
        return await self.log_in(ANN), await self.log_in(BOB)

    async def pool(
        self,
        *,
        store: TelegramAccounts | None = None,
        session: str | None = None,
        leases: AccountLeases | None = None,
    ) -> AccountPool:
        """A started pool; closed at the end. Without pacing, which has tests of its own."""
        pool = AccountPool(
            store or self.store,
            self.channels,
            self.open,
            clock=self.clock,
            ticks=self.clock.ticks,
            paced=False,
            session=session,
            leases=leases,
        )
        self.pools.append(pool)
        await pool.start()
        return pool

    def open(
        self, session: str, account_id: str, gate: Budget | None, *, live: bool = False, proxy: str | None = None
    ) -> TelegramAccount:
        assert proxy is None
        client = open_client(
            api_id=1,
            api_hash="hash",
            session=session,
            server=TelegramServer.parse(self.sim.address),
            rsa_key_pem=self.sim.public_key_pem,
            purpose="live" if live else "read",
        )
        assert client.session.server_address == "127.0.0.1", "a test must never reach the real Telegram"
        self.opened.append((account_id, live))
        return TelegramAccount(client, account_id, request_timeout=self.request_timeout, gate=gate)

    def leases(self, owner: str, *, ttl: float = 30.0) -> AccountLeases:
        """Those of a process on another machine: only time tells whether it lives."""
        return AccountLeases(self.database, owner, ttl=ttl, is_gone=lambda _: False)

    async def tenant(self, name: str) -> UUID:
        statement = text("INSERT INTO tenants (name) VALUES (:name) RETURNING id")
        async with self.database.begin() as connection:
            found: UUID = (await connection.execute(statement, {"name": name})).scalar_one()
        return found

    async def watch(
        self, channel_id: int, hashes: dict[str, int] | None = None, *, tenant: UUID | None = None
    ) -> Channel:
        """Makes a channel's row, with the access hashes that accounts have for it."""
        known = self.world.channels[channel_id]
        async with self.database.begin() as connection:
            await connection.execute(
                text("INSERT INTO channels (id, title, username, tenant_id) VALUES (:id, :title, :username, :tenant)"),
                {"id": known.id, "title": known.title, "username": known.username, "tenant": tenant},
            )
        for account_id, access_hash in (hashes or {}).items():
            await self.store.remember_hash(account_id, channel_id, access_hash)
        return await self.channel(channel_id)

    async def channel(self, channel_id: int) -> Channel:
        channel = await self.channels.get(channel_id)
        assert channel is not None
        return channel

    async def account(self, account_id: str) -> Account:
        account = await self.store.get(account_id)
        assert account is not None
        return account

    async def newest_id(self, pool: AccountPool, channel: Channel) -> int:
        source = await pool.reader(channel)
        return await source.last_id_before(self.clock())

    def asked(self, method: str, user: int | None = None) -> int:
        """How often a method was asked, by one user or by all."""
        return sum(call.method == method and user in {None, call.user_id} for call in self.sim.rpc_log)


@pytest.fixture
def world() -> World:
    """Two public channels with three posts each, and a private one that only Bob has joined."""
    world = World()
    world.add_user(User(ANN, 501, "Ann", phone="+79990000001"))
    world.add_user(User(BOB, 502, "Bob", phone="+79990000002"))
    for channel in (
        SimChannel(100, 11, "News", "news_daily", START, members={ANN}),
        SimChannel(300, 13, "Quiet", "quiet", START),
        SimChannel(400, 14, "Secret", None, START, private=True, members={BOB}, invite="come-in-here"),
    ):
        world.add_channel(channel)
        for number in range(1, 4):
            world.post(channel, Message(number, START + timedelta(minutes=number), f"Post {number}"))
    return world


@pytest.fixture
async def scene(world: World, database: AsyncEngine) -> AsyncIterator[Scene]:
    async with Simulator(world) as simulator:
        made = Scene(simulator, database)
        yield made
        for pool in made.pools:
            await pool.close()
    assert simulator.unhandled == []


@pytest.fixture(autouse=True)
def _telethon() -> Iterator[None]:
    with forgotten_after():
        yield
