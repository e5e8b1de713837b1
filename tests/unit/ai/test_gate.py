"""The door to a remote model, with a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from telegram_assistant.ai.remote.gate import CallLimits, Gate, Kind, Trouble
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import Reject, Retry
from tests.metrics import sample

pytestmark = pytest.mark.unit

QUICK = CallLimits(backoff=Backoff(base=0.001, cap=0.002), failures=2, shut=30.0, longest_shut=50.0, blocked=300.0)


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Model:
    """Fails as told, then answers; counts."""

    def __init__(self, troubles: Sequence[Trouble]) -> None:
        self.troubles = [*troubles]
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        if self.troubles:
            raise self.troubles.pop(0)
        return "answer"


def down() -> Trouble:
    return Trouble(Kind.DOWN, "503")


def blocked(gate: Gate) -> bool:
    return gate.blocked


def trouble(gate: Gate) -> str | None:
    return gate.trouble


async def failed(gate: Gate, model: Model, times: int) -> Retry:
    for _ in range(times):
        with pytest.raises(Retry) as caught:
            await gate.run(model)
    return caught.value


async def test_a_short_trouble_is_tried_again_here() -> None:
    model = Model([down(), Trouble(Kind.LIMITED, "429", after=0.001)])
    assert await Gate("p", "a", QUICK).run(model) == "answer"
    assert model.asked == 3


async def test_attempts_are_bounded() -> None:
    model = Model([down() for _ in range(10)])
    await failed(Gate("p", "a", QUICK), model, 1)
    assert model.asked == 3


async def test_a_long_wait_is_left_to_the_caller_and_holds_for_others() -> None:
    clock = Clock()
    gate, model = Gate("p", "a", QUICK, clock), Model([Trouble(Kind.LIMITED, "429", after=60.0)])
    assert (await failed(gate, model, 1)).after == 60.0
    clock.now += 20
    assert (await failed(gate, model, 1)).after == 40.0
    assert model.asked == 1
    clock.now += 40
    assert await gate.run(model) == "answer"
    assert gate.trouble is None


async def test_after_failures_in_a_row_the_door_is_shut_longer_each_time() -> None:
    clock = Clock()
    gate, model = Gate("p", "a", QUICK, clock), Model([down() for _ in range(12)])
    await failed(gate, model, 1)
    assert gate.trouble is None  # once is no habit
    assert (await failed(gate, model, 1)).after == 30.0
    assert model.asked == 6
    assert (await failed(gate, model, 1)).after == 30.0  # not asked
    assert model.asked == 6
    clock.now += 30
    assert (await failed(gate, model, 1)).after == 50.0  # twice as long, up to the longest
    clock.now += 50
    assert (await failed(gate, model, 1)).after == 50.0
    clock.now += 50
    assert await gate.run(model) == "answer"
    assert gate.trouble is None
    model.troubles = [down() for _ in range(3)]
    await failed(gate, model, 1)
    assert gate.trouble is None  # the count began anew


async def test_a_model_that_hangs_is_told_long_before_the_door_is_shut() -> None:
    """Three attempts of a minute each, and one question at a time: five failures in a row take a quarter of an hour."""
    clock = Clock()
    gate = Gate("remote", "tag", replace(QUICK, failures=5), clock)
    hangs = True

    async def slow() -> str:
        if not hangs:
            return "answer"
        clock.now += 60
        raise Trouble(Kind.DOWN, "no answer within 60 s")

    async def once() -> str:
        clock.now += 60
        raise Trouble(Kind.REFUSED, "not this")

    with pytest.raises(Retry):
        await gate.run(slow)
    assert trouble(gate) == "remote, tag: no answer within 60 s (for 3 min)"
    with pytest.raises(Reject):
        await gate.run(once)
    assert trouble(gate) is None, "it answers"
    with pytest.raises(Retry):
        await gate.run(slow)
    clock.now += 1000
    assert trouble(gate) is None, "it is not needed any more"
    hangs = False
    assert await gate.run(slow) == "answer"


async def test_a_model_that_misses_one_answer_is_no_trouble() -> None:
    clock = Clock()
    gate = Gate("remote", "tag", QUICK, clock)
    model = Model([down()])
    assert await gate.run(model) == "answer"
    clock.now += 70
    assert trouble(gate) is None


async def test_only_one_tries_whether_it_is_back() -> None:
    clock = Clock()
    gate = Gate("p", "a", QUICK, clock)
    await failed(gate, Model([down() for _ in range(6)]), 2)
    clock.now += 30
    entered, may_answer = asyncio.Event(), asyncio.Event()

    async def slowly() -> str:
        entered.set()
        await may_answer.wait()
        return "back"

    probe = asyncio.create_task(gate.run(slowly))
    await entered.wait()
    other = Model([])
    await failed(gate, other, 1)
    assert other.asked == 0
    may_answer.set()
    assert await probe == "back"
    assert await gate.run(other) == "answer"


async def test_a_cancelled_probe_leaves_the_next_one_a_chance() -> None:
    clock = Clock()
    gate = Gate("p", "a", QUICK, clock)
    await failed(gate, Model([down() for _ in range(6)]), 2)
    clock.now += 30
    entered = asyncio.Event()

    async def never() -> str:
        entered.set()
        await asyncio.Event().wait()
        return ""

    probe = asyncio.create_task(gate.run(never))
    await entered.wait()
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert await gate.run(Model([])) == "answer"


async def test_a_wrong_key_waits_for_a_person_and_says_so() -> None:
    clock = Clock()
    gate, model = Gate("p", "key", QUICK, clock), Model([Trouble(Kind.BLOCKED, "401: set THE_KEY")])
    told = await failed(gate, model, 1)
    assert "a person has to act" in str(told)
    assert "THE_KEY" in str(told)
    assert told.after == 300.0
    assert blocked(gate)
    assert sample("ai_blocked", provider="p", ability="key") == 1
    clock.now += 300
    assert await gate.run(model) == "answer"
    assert not blocked(gate)
    assert sample("ai_blocked", provider="p", ability="key") == 0


async def test_a_refused_input_is_rejected_and_the_door_stays_open() -> None:
    gate = Gate("p", "a", QUICK)
    for _ in range(5):
        model = Model([Trouble(Kind.REFUSED, "400 too long")])
        with pytest.raises(Reject, match="too long"):
            await gate.run(model)
        assert model.asked == 1
    assert gate.trouble is None


def rubbish() -> Model:
    return Model([Trouble(Kind.RUBBISH, "no JSON")])


async def test_n19_rubbish_shuts_the_door_and_says_for_how_long() -> None:
    clock = Clock()
    gate = Gate("p", "a", QUICK, clock)
    for _ in range(2):
        assert gate.trouble is None
        model = rubbish()
        assert (await failed(gate, model, 1)).own
        assert model.asked == 1
    clock.now += 29
    waiting = await failed(gate, Model([]), 1)  # the next posts wait instead of going the same way
    assert (waiting.after, waiting.own, waiting.failed) == (1.0, False, False)
    clock.now += 91
    assert gate.trouble is not None
    assert "rubbish" in gate.trouble
    assert "for 2 min" in gate.trouble


async def test_n19_rubbish_uses_up_attempts_only_while_others_are_answered() -> None:
    clock = Clock()
    gate = Gate("p", "a", replace(QUICK, failures=5), clock)
    for _ in range(3):
        assert await gate.run(Model([])) == "answer"
        assert (await failed(gate, rubbish(), 1)).failed
    assert (await failed(gate, rubbish(), 1)).failed  # perhaps the same, alone now
    for _ in range(20):
        waits = await failed(gate, rubbish(), 1)
        assert (waits.failed, waits.own) == (False, False)
        clock.now += 1


async def test_n19_one_that_always_gets_rubbish_does_not_keep_the_door_shut_for_the_rest() -> None:
    clock = Clock()
    gate = Gate("p", "a", QUICK, clock)
    for _ in range(2):
        await failed(gate, rubbish(), 1)
    clock.now += 30
    await failed(gate, rubbish(), 1)  # it is the first to be let in again
    assert await gate.run(Model([])) == "answer"
    assert gate.trouble is None


async def test_no_more_than_allowed_at_once() -> None:
    gate = Gate("p", "a", CallLimits(concurrency=2))
    inside, most = 0, 0

    async def request() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(5):
            await asyncio.sleep(0)
        inside -= 1

    await asyncio.gather(*(gate.run(request) for _ in range(10)))
    assert most == 2
