"""Transports, the handshake, sessions old and new, and what a server does with nonsense."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from telethon import TelegramClient, errors
from telethon.crypto import rsa
from telethon.network.connection import (
    ConnectionTcpAbridged,
    ConnectionTcpFull,
    ConnectionTcpIntermediate,
)
from telethon.sessions import StringSession
from telethon.tl import functions

from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]
TRANSPORTS = [ConnectionTcpFull, ConnectionTcpAbridged, ConnectionTcpIntermediate]


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda t: t.__name__)
async def test_a_new_device_shakes_hands_over_each_transport(
    transport: Any, connect: Connect, fresh_session: Callable[[], Any]
) -> None:
    session = fresh_session()
    client = await connect(session, connection=transport)
    assert not await client.is_user_authorized()
    assert len(session.auth_key.key) == 256
    nearest = await client(functions.help.GetNearestDcRequest())
    assert nearest.this_dc == 2


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda t: t.__name__)
async def test_history_is_the_same_over_each_transport(
    transport: Any, connect: Connect, fill_news: Callable[[int], None]
) -> None:
    fill_news(250)
    client = await connect(connection=transport)
    messages = await client.get_messages("news_daily", limit=250)
    assert [m.id for m in messages] == list(range(250, 0, -1))


async def test_a_key_that_the_server_does_not_know_is_refused(sim: Simulator, connect: Connect, world: World) -> None:
    async with Simulator(world) as other:
        session = StringSession(other.session())
    session.set_dc(2, "127.0.0.1", sim.port)
    with pytest.raises(errors.AuthKeyNotFound):
        await connect(session)


async def test_a_client_without_the_public_key_cannot_shake_hands(
    connect: Connect, sim: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = StringSession()
    session.set_dc(2, "127.0.0.1", sim.port)
    monkeypatch.setattr(rsa, "_server_keys", {})
    with pytest.raises(ConnectionError, match="auth_key generation failed"):
        await connect(session, connection_retries=1)


async def test_old_sessions_outlive_a_restart_where_there_is_a_state_file(world: World, tmp_path: Path) -> None:
    state = tmp_path / "deep" / "simulator.json"
    async with Simulator(world, state_path=state) as first:
        text = first.session(1002)
        assert first.session(1002) == text, "the same key as long as it is signed in"
    assert state.stat().st_mode & 0o777 == 0o600
    async with Simulator(world, state_path=state) as second:
        session = StringSession(text)
        session.set_dc(2, "127.0.0.1", second.port)
        client = TelegramClient(session, 1, "hash")
        await client.connect()
        assert (await client.get_me()).first_name == "Bob"
        await client.disconnect()
    assert [path.name for path in state.parent.iterdir()] == ["simulator.json"]


async def test_a_state_file_of_something_else_is_named(world: World, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("[]")
    with pytest.raises(ValueError, match=r"state\.json is not a simulator's state file"):
        Simulator(world, state_path=state)


async def test_a_client_comes_back_after_the_server_was_away(sim: Simulator, connect: Connect) -> None:
    client = await connect(connection_retries=20, retry_delay=0.05)
    port = sim.port
    await sim.stop()
    await sim.start()
    assert sim.port == port
    assert (await client.get_me()).first_name == "Ann"


async def test_a_client_whose_clock_is_wrong_learns_the_time(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = type("Clock", (), {"time": staticmethod(lambda: time.time() + 4_000)})
    monkeypatch.setattr("telethon.network.mtprotostate.time", ahead)
    client = await connect()
    assert (await client.get_me()).first_name == "Ann"


async def test_a_wrong_salt_is_corrected_and_the_request_answered(connect: Connect) -> None:
    client = await connect()
    state = client._sender._state  # noqa: SLF001 - Telethon lets nobody choose a salt
    right, state.salt = state.salt, 12345
    assert (await client.get_me()).first_name == "Ann"
    assert state.salt == right


async def test_requests_in_one_container_and_in_order(sim: Simulator, connect: Connect) -> None:
    sim.faults.add(Fault("slow", "help.getNearestDc", seconds=0.05))
    client = await connect()
    requests = [functions.help.GetNearestDcRequest(), functions.updates.GetStateRequest()]
    nearest, state = await client(requests)
    assert (nearest.this_dc, state.pts) == (2, 1)
    assert [call.method for call in sim.rpc_log][-2:] == ["updates.getState", "help.getNearestDc"]
    await client(requests, ordered=True)
    assert [call.method for call in sim.rpc_log][-2:] == ["help.getNearestDc", "updates.getState"]


async def test_gzipped_answers_read_the_same(world: World, news: Channel, fill_news: Callable[[int], None]) -> None:
    fill_news(300)
    async with Simulator(world, gzip_answers=True) as sim:
        client = TelegramClient(StringSession(sim.session()), 1, "hash")
        await client.connect()
        messages = await client.get_messages("news_daily", limit=300)
        assert [m.message or "" for m in messages] == [news.messages[i].text for i in range(300, 0, -1)]
        assert len(await client.download_media(news_photo(messages), bytes)) > 0
        await client.disconnect()


def news_photo(messages: Any) -> Any:
    return next(m for m in messages if m.photo)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xef\x7f\xff\xff\xff",
        b"\xef\x05" + bytes(20),
        b"\xef\x0a" + b"\x00" * 8 + b"\x01" * 32,
        b"\x28\x00\x00\x00" + bytes(36),
        b"",
    ],
    ids=["http", "abridged end", "plain nothing", "plain unknown", "full checksum", "nothing"],
)
async def test_nonsense_closes_one_connection_and_harms_no_other(
    nonsense: bytes, sim: Simulator, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect()
    reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)
    writer.write(nonsense)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 300) == b""
    writer.close()
    await writer.wait_closed()
    assert (await client.get_me()).first_name == "Ann"
    gc.collect()  # a task that died of it would be reported now
    assert [record.name for record in caplog.records if record.name == "asyncio"] == []


async def test_stopping_leaves_nothing_behind(world: World) -> None:
    before = asyncio.all_tasks()
    sim = Simulator(world, faults=[Fault("slow", "help.getNearestDc", seconds=600)])
    await sim.start()
    client = TelegramClient(StringSession(sim.session()), 1, "hash", auto_reconnect=False)
    await client.connect()
    hanging = asyncio.ensure_future(client(functions.help.GetNearestDcRequest()))
    await sim.until(lambda: sim.faults.fired["slow"])
    await sim.stop()
    await sim.stop()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await hanging
    await client.disconnect()
    assert asyncio.all_tasks() == before
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", sim.port)


async def test_a_request_that_nobody_wrote_is_answered_and_listed(sim: Simulator, connect: Connect) -> None:
    client = await connect()
    with pytest.raises(errors.BadRequestError, match="METHOD_UNKNOWN"):
        await client(functions.help.GetSupportRequest())
    assert sim.unhandled == ["help.getSupport"]
    assert sim.rpc_log[-1].outcome == "METHOD_UNKNOWN"
    sim.unhandled.clear()


async def test_the_port_is_known_only_when_it_is_open(world: World) -> None:
    sim = Simulator(world)
    with pytest.raises(RuntimeError, match="before it is started"):
        sim.session()
    async with sim:
        assert sim.address == f"2:127.0.0.1:{sim.port}"
        with pytest.raises(RuntimeError, match="started already"):
            await sim.start()
