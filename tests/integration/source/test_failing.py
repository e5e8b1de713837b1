"""Everything that can go wrong with a request, and what is left of it afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from telethon.tl import functions

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import Page, SourceError
from telegram_assistant.source import telegram_account
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.integration.source.conftest import NEWS, OTHER, QUIET, OpenSource, fill

pytestmark = pytest.mark.integration

HISTORY = "messages.getHistory"


@dataclass
class Notes:
    """A gate that lets everything pass and writes it down."""

    asked: list[str] = field(default_factory=list)
    floods: list[tuple[str, float]] = field(default_factory=list)

    async def __call__(self, method: str) -> None:
        self.asked.append(method)

    async def flooded(self, method: str, seconds: float) -> None:
        self.floods.append((method, seconds))


async def failure_of(source: TelegramAccount) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await source.channel(NEWS).page_after(0)
    return caught.value


def asked(sim: Simulator, method: str) -> int:
    return sum(call.method == method for call in sim.rpc_log)


@pytest.mark.parametrize("action", ["flood", "flood_premium"])
async def test_a_flood_is_told_and_not_remembered_here(sim: Simulator, open_source: OpenSource, action: str) -> None:
    notes = Notes()
    source = open_source(gate=notes)
    sim.faults.add(Fault(action, HISTORY, times=1, seconds=40))
    error = await failure_of(source)
    assert (error.failure, error.flood_seconds) == (Failure.FLOOD, 40)
    assert notes.floods == [(HISTORY, 40)]
    # Whether to ask again is the gate's decision: the request itself reaches Telegram.
    assert await source.channel(QUIET).page_after(0) == Page((), reached_end=True)
    assert notes.asked == [HISTORY, HISTORY]
    assert asked(sim, HISTORY) == 2


async def test_what_the_gate_refuses_is_not_asked(sim: Simulator, open_source: OpenSource) -> None:
    class Shut(Notes):
        async def __call__(self, method: str) -> None:
            raise SourceError(Failure.FLOOD, f"{method} must wait", flood_seconds=9)

    gate = Shut()
    assert (await failure_of(open_source(gate=gate))).flood_seconds == 9
    assert gate.floods == []
    assert asked(sim, HISTORY) == 0


@pytest.mark.parametrize(
    "code, message, failure",
    [
        (500, "INTERNAL", Failure.TRANSIENT),
        (-503, "Timeout", Failure.TRANSIENT),
        (401, "AUTH_KEY_UNREGISTERED", Failure.ACCOUNT),
        (401, "SESSION_REVOKED", Failure.ACCOUNT),
        (401, "USER_DEACTIVATED_BAN", Failure.ACCOUNT),
        (406, "AUTH_KEY_DUPLICATED", Failure.ACCOUNT),
        (400, "CHANNEL_PRIVATE", Failure.CHANNEL_PRIVATE),
    ],
)
async def test_errors_of_telegram_cost_one_request(
    sim: Simulator, source: TelegramAccount, code: int, message: str, failure: Failure
) -> None:
    await source.connect()
    sim.faults.add(Fault("error", HISTORY, code=code, message=message))
    assert (await failure_of(source)).failure is failure
    assert asked(sim, HISTORY) == 1


async def test_no_answer_in_time(sim: Simulator, open_source: OpenSource) -> None:
    source = open_source(request_timeout=0.5)
    sim.faults.add(Fault("silence", HISTORY, times=1))
    error = await failure_of(source)
    assert (error.failure, str(error)) == (Failure.TRANSIENT, f"{HISTORY}: no answer in time")
    assert (await source.channel(NEWS).page_after(0)).reached_end


@pytest.mark.parametrize("action", ["drop", "lose", "cut"])
async def test_a_lost_connection_comes_back_by_itself(
    sim: Simulator, world: World, news: Channel, source: TelegramAccount, action: str
) -> None:
    fill(world, news, 3)
    sim.faults.add(Fault(action, HISTORY, times=1))
    assert len((await source.channel(NEWS).page_after(0)).posts) == 3


async def test_a_server_that_is_gone_and_comes_back(
    sim: Simulator, world: World, news: Channel, source: TelegramAccount
) -> None:
    fill(world, news, 3)
    await source.connect()
    await sim.stop()
    assert (await failure_of(source)).failure is Failure.TRANSIENT
    assert (await failure_of(source)).failure is Failure.TRANSIENT
    await sim.start()
    assert len((await source.channel(NEWS).page_after(0)).posts) == 3


async def test_a_session_that_is_not_valid(sim: Simulator, open_source: OpenSource) -> None:
    source = open_source()
    sim.faults.add(Fault("error", "users.getUsers", code=401, message="SESSION_REVOKED"))
    error = await failure_of(source)
    assert error.failure is Failure.ACCOUNT
    assert "tga login" in str(error)
    sim.faults.clear()
    assert (await source.channel(NEWS).page_after(0)).reached_end


async def test_a_session_of_another_server(world: World, open_source: OpenSource) -> None:
    async with Simulator(world) as stranger:
        source = open_source(at=stranger)
        error = await failure_of(source)
        await source.close()
    assert error.failure is Failure.ACCOUNT
    assert "does not know this session" in str(error)


@pytest.mark.parametrize("method", ["help.getConfig", "users.getUsers", "updates.getState"])
async def test_connecting_that_fails_halfway_is_begun_anew(
    sim: Simulator, source: TelegramAccount, method: str
) -> None:
    sim.faults.add(Fault("flood", method, times=1, seconds=30))
    error = await failure_of(source)
    assert (error.failure, error.flood_seconds) == (Failure.FLOOD, 30)
    assert (await source.channel(NEWS).page_after(0)).reached_end


async def test_a_server_that_says_nothing(
    sim: Simulator, source: TelegramAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim.faults.add(Fault("silence", "help.getConfig", times=1))
    with monkeypatch.context() as hurried:
        hurried.setattr(telegram_account, "CONNECT_SECONDS", 0.2)
        error = await failure_of(source)
    assert (error.failure, str(error)) == (Failure.TRANSIENT, "connecting to Telegram directly: no answer in time")
    assert (await source.channel(NEWS).page_after(0)).reached_end


async def test_many_requests_share_one_connection(sim: Simulator, source: TelegramAccount) -> None:
    pages = await asyncio.gather(*(source.channel(NEWS).page_after(0) for _ in range(20)))
    assert all(page.reached_end for page in pages)
    assert asked(sim, "help.getConfig") == 1


async def test_closing_ends_what_waits_with_an_error_and_no_cancellation(
    sim: Simulator, source: TelegramAccount
) -> None:
    sim.faults.add(Fault("silence", HISTORY))
    waiting = asyncio.create_task(failure_of(source))
    await sim.until(lambda: asked(sim, HISTORY) == 1)
    await source.close()
    assert (await waiting).failure is Failure.TRANSIENT
    assert "closed" in str(await failure_of(source))


async def test_a_cancelled_request_is_cancelled(sim: Simulator, source: TelegramAccount) -> None:
    sim.faults.add(Fault("silence", HISTORY, times=1))
    waiting = asyncio.create_task(source.channel(NEWS).page_after(0))
    await sim.until(lambda: asked(sim, HISTORY) == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await source.channel(NEWS).page_after(0)).reached_end


async def test_only_reading_is_possible(sim: Simulator, source: TelegramAccount) -> None:
    await source.connect()
    before = len(sim.rpc_log)
    with pytest.raises(RuntimeError, match=r"messages\.sendMessage"):
        await source.ask(functions.messages.SendMessageRequest("me", "hello"))
    assert len(sim.rpc_log) == before


async def test_two_accounts_do_not_disturb_each_other(sim: Simulator, open_source: OpenSource) -> None:
    first, second = open_source(), open_source(user_id=OTHER)
    sim.faults.add(Fault("error", HISTORY, user=OTHER, code=401, message="USER_DEACTIVATED_BAN"))
    assert (await failure_of(second)).failure is Failure.ACCOUNT
    assert (await first.channel(NEWS).page_after(0)).reached_end
