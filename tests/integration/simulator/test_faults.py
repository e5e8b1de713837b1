"""Every fault that a request can meet, as a real client meets it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from telethon import errors
from telethon.sessions import StringSession
from telethon.tl import functions, types

from telegram_simulator.faults import ACTIONS, Event, Fault, FaultBook, faults_from_json, load_faults
from telegram_simulator.model import Channel
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]
ASK = functions.help.GetNearestDcRequest()


async def test_flood_waits_carry_their_seconds(sim: Simulator, connect: Connect) -> None:
    client = await connect()
    sim.faults.add(
        Fault("flood", "help.getNearestDc", seconds=3, times=1),
        Fault("flood_premium", "help.getNearestDc", seconds=2, times=1),
    )
    with pytest.raises(errors.FloodWaitError) as flood:
        await client(ASK)
    assert flood.value.seconds == 3
    with pytest.raises(errors.FloodPremiumWaitError) as premium:
        await client(ASK)
    assert premium.value.seconds == 2
    assert (await client(ASK)).this_dc == 2
    assert [c.outcome for c in sim.rpc_log][-3:] == ["FLOOD_WAIT_3", "FLOOD_PREMIUM_WAIT_2", "ok"]


@pytest.mark.parametrize(
    "code,message,error",
    [
        (400, "CHANNEL_PRIVATE", errors.ChannelPrivateError),
        (400, "CHANNEL_INVALID", errors.ChannelInvalidError),
        (400, "USERNAME_NOT_OCCUPIED", errors.UsernameNotOccupiedError),
        (401, "AUTH_KEY_UNREGISTERED", errors.AuthKeyUnregisteredError),
        (406, "AUTH_KEY_DUPLICATED", errors.AuthKeyDuplicatedError),
        (500, "INTERNAL", ValueError),  # Telethon: "Request was unsuccessful"
        (-503, "Timeout", ValueError),
    ],
)
async def test_an_error_is_the_clients_own_exception(
    code: int, message: str, error: type[Exception], sim: Simulator, connect: Connect
) -> None:
    client = await connect()
    sim.faults.add(Fault("error", "help.getNearestDc", code=code, message=message, times=1))
    with pytest.raises(error):
        await client(ASK)
    assert (await client(ASK)).this_dc == 2


async def test_a_dropped_request_was_not_executed_and_a_lost_one_was(
    sim: Simulator, world: World, connect: Connect
) -> None:
    client = await connect()
    quiet = world.channels[300]
    join, leave = functions.channels.JoinChannelRequest("quiet"), functions.channels.LeaveChannelRequest("quiet")
    sim.faults.add(Fault("drop", "channels.joinChannel", times=1), Fault("lose", "channels.leaveChannel", times=1))
    await client(join)
    assert quiet.members == {1001}
    with pytest.raises(errors.UserNotParticipantError):  # executed twice: the first answer was lost
        await client(leave)
    outcomes = [(c.method, c.outcome) for c in sim.rpc_log if c.method.startswith("channels.")]
    assert outcomes == [
        ("channels.joinChannel", "drop"),
        ("channels.joinChannel", "ok"),
        ("channels.leaveChannel", "lose"),
        ("channels.leaveChannel", "USER_NOT_PARTICIPANT"),
    ]


async def test_a_cut_answer_is_asked_for_again(
    sim: Simulator, connect: Connect, fill_news: Callable[[int], None]
) -> None:
    fill_news(100)
    client = await connect()
    sim.faults.add(Fault("cut", "messages.getHistory", times=2))
    assert len(await client.get_messages("news_daily", limit=100)) == 100
    assert sim.faults.fired["cut"] == 2


async def test_a_slow_answer_does_not_hold_up_others(sim: Simulator, connect: Connect) -> None:
    client = await connect()
    sim.faults.add(Fault("slow", "help.getNearestDc", seconds=0.2, times=1))
    slow = asyncio.ensure_future(client(ASK))
    await sim.until(lambda: sim.faults.fired["slow"])
    assert (await client.get_me()).first_name == "Ann"
    assert not slow.done()
    assert (await slow).this_dc == 2


async def test_silence_is_silence_and_the_connection_lives(sim: Simulator, connect: Connect) -> None:
    client = await connect()
    sim.faults.add(Fault("silence", "help.getNearestDc", times=1))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(client(ASK), 0.1)
    assert (await client(ASK)).this_dc == 2
    assert [c.outcome for c in sim.rpc_log][-2:] == ["silence", "ok"]


async def test_faults_can_mean_one_channel_or_one_user(
    sim: Simulator, connect: Connect, fill_news: Callable[[int], None]
) -> None:
    fill_news(2)
    ann, bob = await connect(), await connect(StringSession(sim.session(1002)))
    private = Fault("error", "messages.*", channel="-100100", user=1002, code=400, message="CHANNEL_PRIVATE")
    gone = Fault("error", channel="quiet", code=400, message="USERNAME_NOT_OCCUPIED")
    sim.faults.add(private, gone)
    assert len(await ann.get_messages("news_daily", limit=5)) == 2
    with pytest.raises(errors.ChannelPrivateError):
        await bob.get_messages("news_daily", limit=5)
    with pytest.raises(errors.UsernameNotOccupiedError):
        await ann(functions.contacts.ResolveUsernameRequest("Quiet"))
    assert (sim.faults.count(private), sim.faults.count(gone)) == (1, 1)
    sim.faults.remove(gone)
    assert (await ann.get_entity("quiet")).title == "Quiet"


async def test_the_log_says_what_was_asked_without_secrets(
    sim: Simulator, news: Channel, connect: Connect, fill_news: Callable[[int], None]
) -> None:
    fill_news(1)
    client = await connect()
    await client.get_messages("news_daily", limit=1, offset_id=5)
    call = sim.rpc_log[-1]
    assert (call.method, call.user_id, call.outcome) == ("messages.getHistory", 1001, "ok")
    assert call.args == f"peer={news.id} offset_id=5 limit=1"
    await client(functions.auth.SendCodeRequest("+79990000002", 1, "very-secret", types.CodeSettings()))
    assert "very-secret" not in sim.rpc_log[-1].args


def test_probability_is_reproducible_and_about_right() -> None:
    def fires(seed: int) -> list[bool]:
        book = FaultBook([Fault("drop", probability=0.1)], seed=seed)
        return [book.pick(Event("messages.getHistory")) is not None for _ in range(2_000)]

    assert fires(1) == fires(1) != fires(2)
    assert 150 < sum(fires(1)) < 250


def test_skip_and_times_count_matching_requests_only() -> None:
    book = FaultBook([Fault("drop", "upload.*", skip=2, times=2)])
    names = ["upload.getFile", "help.getConfig"] * 6
    assert [place for place, name in enumerate(names) if book.pick(Event(name))] == [4, 6]
    assert book.to_json()[0]["fired"] == 2


def test_the_first_fault_that_fires_wins() -> None:
    first, second = Fault("drop", times=1), Fault("silence")
    book = FaultBook([first, second])
    assert [book.pick(Event("a.b")) for _ in range(2)] == [first, second]
    book.clear()
    assert (book.pick(Event("a.b")), len(book)) == (None, 0)


def test_a_file_of_faults(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps([{"action": action} for action in ACTIONS] + [{"action": "flood", "seconds": 5}]))
    faults = load_faults(path)
    assert [f.action for f in faults] == [*ACTIONS, "flood"]
    assert faults[-1] == Fault("flood", seconds=5)


@pytest.mark.parametrize(
    "content,complaint",
    [
        ("{", "Expecting"),
        ("{}", "must be a JSON list"),
        ("[3]", "fault 1 must be an object"),
        ('[{"action": "drop"}, {"action": "explode"}]', "fault 2: unknown fault action 'explode': allowed are flood, "),
        ('[{"action": "drop", "methud": "x"}]', "fault 1: unknown key 'methud': allowed are action, method, channel"),
        ('[{"method": "x"}]', "fault 1: 'action' is missing"),
        ('[{"action": "drop", "probability": 2}]', "from 0 to 1"),
        ('[{"action": "drop", "times": 0}]', "'times' must be at least 1"),
        ('[{"action": "slow", "seconds": "3"}]', "'seconds' of a fault cannot be '3'"),
        ('[{"action": "drop", "skip": true}]', "'skip' of a fault cannot be True"),
    ],
)
def test_a_bad_file_is_explained(content: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"faults\.json") as error:
        load_faults(path)
    assert complaint in str(error.value)


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read .*nowhere\.json: No such file"):
        load_faults(tmp_path / "nowhere.json")
    assert faults_from_json([]) == []
