"""A takeout session as Telethon's own client makes it: asked for, waited for, used and finished."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from telethon import errors
from telethon.tl import functions, types

from telegram_simulator.faults import Fault
from telegram_simulator.server import Simulator

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]
READER = 1001
HISTORY = functions.messages.GetHistoryRequest(types.InputPeerChannel(100, 11), 0, None, 0, 100, 0, 0, 0)


async def test_the_first_request_waits_and_another_device_may_allow_it(sim: Simulator, connect: Connect) -> None:
    sim.takeouts.delay = 86_400
    client = await connect()
    for _ in range(2):
        with pytest.raises(errors.TakeoutInitDelayError) as put_off:
            async with client.takeout(channels=True):
                pass
        assert 86_390 < put_off.value.seconds <= 86_400
    sim.allow_takeout(READER)
    async with client.takeout(channels=True):
        assert len(sim.takeouts.open) == 1
    assert sim.takeouts.open == {}, "Telethon finishes it"


async def test_its_history_has_limits_of_its_own(
    sim: Simulator, connect: Connect, fill_news: Callable[[int], None]
) -> None:
    fill_news(30)
    client = await connect()
    sim.faults.add(Fault("flood", "messages.getHistory", seconds=60))
    async with client.takeout(channels=True) as takeout:
        assert len((await takeout(HISTORY)).messages) == 30
        with pytest.raises(errors.FloodWaitError):
            await client(HISTORY)
    assert [call.method for call in sim.rpc_log if call.method.endswith("getHistory)")] == [
        "invokeWithTakeout(messages.getHistory)"
    ]


async def test_an_id_that_is_none(sim: Simulator, connect: Connect) -> None:
    client = await connect()
    with pytest.raises(errors.TakeoutRequiredError):
        await client(functions.InvokeWithTakeoutRequest(1, HISTORY))
    with pytest.raises(errors.TakeoutRequiredError):
        await client(functions.account.FinishTakeoutSessionRequest())
    first = (await client(functions.account.InitTakeoutSessionRequest(message_channels=True))).id
    second = (await client(functions.account.InitTakeoutSessionRequest(message_channels=True))).id
    with pytest.raises(errors.TakeoutInvalidError):  # another export ended it
        await client(functions.InvokeWithTakeoutRequest(first, HISTORY))
    finish = functions.account.FinishTakeoutSessionRequest(success=True)
    assert await client(functions.InvokeWithTakeoutRequest(second, finish)) is True
    assert sim.takeouts.open == {}
