"""An account that follows many channels, and as much of capture as tells of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.config import TelegramServer
from telegram_assistant.ingest.account_in_use import Budget
from telegram_assistant.ingest.accounts import AccountPool
from telegram_assistant.ingest.follows import FollowDesk
from telegram_assistant.ingest.requests import ChannelRequests
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.source.telegram_client import open_client
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.runtime import utc_now
from telegram_simulator.model import Channel, Message, User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

ANN, FIRST, JOINED, CLUB, OTHER = 1001, 5000, 130, 5500, 5600
START = datetime(2024, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def followed_world() -> AsyncIterator[Simulator]:
    """An account with 130 channels, more than a page of them, and a private one; two in a folder."""
    world = World()
    ann = world.add_user(User(ANN, 501, "Ann", phone="+79990000001"))
    for number in range(FIRST, FIRST + JOINED):
        channel = world.add_channel(
            Channel(number, number, f"Channel {number}", f"name_{number}", START, members={ANN})
        )
        world.post(channel, Message(1, START, "first"))
    world.add_channel(Channel(CLUB, 1, "Club", None, START, private=True, members={ANN}))
    world.add_channel(Channel(OTHER, 1, "Elsewhere", "elsewhere", START))
    ann.folders = {"Work": [FIRST, CLUB]}
    world.shared["AbCdEf123"] = ("Best of", [OTHER])
    async with Simulator(world) as simulator:
        yield simulator


@asynccontextmanager
async def capture_of(sim: Simulator, database: AsyncEngine, redis: Redis) -> AsyncIterator[ChannelRequests]:
    """Capture, as far as it is needed here."""
    server = TelegramServer.parse(sim.address)

    def opener(
        session: str, account_id: str, gate: Budget | None, *, live: bool = False, proxy: str | None = None
    ) -> TelegramAccount:
        assert proxy is None
        client = open_client(
            api_id=1,
            api_hash="hash",
            session=session,
            server=server,
            rsa_key_pem=sim.public_key_pem,
            purpose="live" if live else "read",
        )
        return TelegramAccount(client, account_id, gate=gate)

    store = TelegramAccounts(database, Sealer("key"))
    await store.add(telegram_user_id=ANN, name="Ann", session=sim.session(ANN))
    pool = AccountPool(store, Channels(database), opener, clock=utc_now, paced=False)
    await pool.start()
    supervisor = Supervisor()
    await supervisor.start("follows", FollowDesk(redis, pool).run)
    yield ChannelRequests(Requests(database), pool, clock=utc_now, due=asyncio.Event())
    await supervisor.stop()
    await pool.close()
