"""One key from two addresses at once: Telegram ends the session, and so does the simulator."""

from __future__ import annotations

from typing import Any

import pytest
from telethon import TelegramClient
from telethon.errors import AuthKeyDuplicatedError
from telethon.sessions import StringSession

from telegram_simulator.model import User
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

HERE, THERE = "127.0.0.1", "127.0.0.2"


def client(sim: Simulator, host: str) -> Any:
    session = StringSession(sim.session())
    session.set_dc(2, host, sim.port)
    made = TelegramClient(session, 1, "hash", connection_retries=1, request_retries=1, raise_last_call_error=True)
    assert made.session.server_address.startswith("127."), "a test must never reach the real Telegram"
    return made


async def _signed_in(one: Any) -> None:
    await one.connect()
    await one.get_me()


@pytest.fixture
def world() -> World:
    world = World()
    world.add_user(User(1001, 501, "Ann", phone="+79990000001"))
    return world


async def test_two_connections_by_one_address_are_one_client(world: World) -> None:
    async with Simulator(world, also_at=[THERE]) as sim:
        reading, live = client(sim, HERE), client(sim, HERE)
        for one in (reading, live, reading):
            await one.connect()
            assert (await one.get_me()).id == 1001
        for one in (reading, live):
            await one.disconnect()
        assert sim.duplicated == []


async def test_two_addresses_one_after_the_other_are_well(world: World) -> None:
    async with Simulator(world, also_at=[THERE]) as sim:
        for host in (HERE, THERE, HERE):
            one = client(sim, host)
            await one.connect()
            assert (await one.get_me()).id == 1001
            await one.disconnect()
        assert sim.duplicated == []


async def test_two_addresses_at_once_end_the_session_for_both(world: World) -> None:
    async with Simulator(world, also_at=[THERE]) as sim:
        before = sim.session()
        first, second = client(sim, HERE), client(sim, THERE)
        await first.connect()
        assert (await first.get_me()).id == 1001
        try:
            with pytest.raises(AuthKeyDuplicatedError):
                await _signed_in(second)
            await second.disconnect()
            with pytest.raises(AuthKeyDuplicatedError):
                await first.get_me()
        finally:
            await first.disconnect()
            await second.disconnect()
        assert sim.duplicated == [1001]
        assert sim.session() != before, "a new login has a new key"
