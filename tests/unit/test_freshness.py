"""Freshness: what is tried in vain shows after a time that depends on nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from telegram_assistant.freshness import UNUSED, Freshness, Rule, Stale

pytestmark = pytest.mark.unit


class Ticks:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Answer(Exception):
    """What a part raises when it is well."""


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def freshness(ticks: Ticks) -> Freshness:
    found = Freshness(ticks)
    rule = Rule(within=45.0, shown="Alice", what="does not answer", cost="costs much", remedy="mend it")
    found.watch("account", "a", rule)
    return found


def fail(freshness: Freshness, name: str = "a", kind: str = "account") -> None:
    with pytest.raises(OSError, match="gone"), freshness.trying(kind, name):
        raise OSError("gone")


def names(found: list[Stale]) -> list[str]:
    return [one.name for one in found]


def test_what_nobody_tried_is_not_stale(freshness: Freshness, ticks: Ticks) -> None:
    ticks.now += 1e6
    assert freshness.stale() == []


def test_a_try_without_an_end_is_stale_after_its_time(freshness: Freshness, ticks: Ticks) -> None:
    with freshness.trying("account", "a"):
        ticks.now += 45
        assert freshness.stale() == []
        ticks.now += 1
        (found,) = freshness.stale()
        assert (found.seconds, found.failures, found.failing) == (46, 0, True)
    assert freshness.stale() == []


def test_failures_and_a_hanging_try_count_together(freshness: Freshness, ticks: Ticks) -> None:
    """A request ends after 30 s without an answer, and the next one hangs as well."""
    freshness.succeeded("account", "a")
    ticks.now += 500
    with suppress(TimeoutError), freshness.trying("account", "a"):
        ticks.now += 30
        raise TimeoutError
    with freshness.trying("account", "a"):
        ticks.now += 16
        assert [round(one.seconds) for one in freshness.stale()] == [46]


def test_one_failure_long_ago_proves_nothing(freshness: Freshness, ticks: Ticks) -> None:
    fail(freshness)
    ticks.now += 600
    assert freshness.stale() == []
    with freshness.trying("account", "a"):
        ticks.now += 1
        assert freshness.stale() == []


def test_only_failures_are_stale_until_one_succeeds(freshness: Freshness, ticks: Ticks) -> None:
    for _ in range(4):
        fail(freshness)
        ticks.now += 20
    (found,) = freshness.stale()
    assert found.failures == 4
    said = found.sentence("11:02:03 UTC")
    assert said == (
        "account Alice: it does not answer since 11:02:03 UTC (4 failed tries, the last: OSError: gone);"
        " costs much; mend it"
    )
    freshness.succeeded("account", "a")
    assert freshness.stale() == []


def test_what_was_given_up_is_forgotten_after_a_while(freshness: Freshness, ticks: Ticks) -> None:
    for _ in range(4):
        fail(freshness)
        ticks.now += 20
    ticks.now += UNUSED
    assert freshness.stale() == []


def test_a_cancellation_is_neither_success_nor_failure(freshness: Freshness, ticks: Ticks) -> None:
    fail(freshness)
    with pytest.raises(asyncio.CancelledError), freshness.trying("account", "a"):
        raise asyncio.CancelledError
    report = freshness.report()["account"]["Alice"]
    assert (report["failures"], report["waits_seconds"], report["succeeded_seconds_ago"]) == (1, None, None)
    ticks.now += 100
    assert freshness.stale() == []


def test_a_refusal_is_an_answer(freshness: Freshness, ticks: Ticks) -> None:
    fail(freshness)
    with pytest.raises(Answer), freshness.trying("account", "a", answered=lambda exc: isinstance(exc, Answer)):
        raise Answer
    assert freshness.report()["account"]["Alice"]["failures"] == 0
    assert freshness.seconds_since_success("account", "a") == 0
    ticks.now += 7
    assert freshness.seconds_since_success("account", "a") == 7


def test_a_block_may_say_that_it_failed(freshness: Freshness) -> None:
    with freshness.trying("account", "a") as attempt:
        attempt.error = "the model is away"
    assert freshness.report()["account"]["Alice"]["error"] == "the model is away"


def test_what_must_always_succeed_needs_no_try(freshness: Freshness, ticks: Ticks) -> None:
    freshness.watch("listener", "a", Rule(within=60.0, always=True))
    ticks.now += 61
    assert names(freshness.stale()) == ["a"]
    freshness.succeeded("listener", "a")
    assert freshness.stale() == []
    ticks.now += 61
    freshness.forget("listener", "a")
    assert freshness.stale() == []


def test_a_part_alone_is_a_trouble_and_all_of_a_kind_are_a_failure(freshness: Freshness, ticks: Ticks) -> None:
    freshness.watch("account", "b", Rule(within=45.0))
    freshness.succeeded("account", "b")
    for _ in range(4):
        fail(freshness)
        ticks.now += 20
    assert [one.failing for one in freshness.stale()] == [False]
    for _ in range(4):
        fail(freshness, "b")
        ticks.now += 20
    assert [one.failing for one in freshness.stale()] == [True, True]


def test_what_belongs_to_a_stale_part_is_not_told_again(freshness: Freshness, ticks: Ticks) -> None:
    freshness.watch("method", "history of a", Rule(within=45.0, part_of=("account", "a")))
    for _ in range(4):
        fail(freshness)
        fail(freshness, "history of a", "method")
        ticks.now += 20
    assert [one.kind for one in freshness.stale()] == ["account"]
    freshness.succeeded("account", "a")
    ticks.now += 1
    fail(freshness, "history of a", "method")
    (method,) = freshness.stale()
    assert method.sentence("11:02:03 UTC").startswith("method history of Alice: it"), "in the words of people"


def test_a_hanging_try_beside_others_that_succeed_counts_only_where_each_must_end(
    freshness: Freshness, ticks: Ticks
) -> None:
    freshness.watch("stage", "tagging", Rule(within=45.0, each=True))
    with freshness.trying("account", "a"), freshness.trying("stage", "tagging"):
        for _ in range(5):
            ticks.now += 20
            freshness.succeeded("account", "a")
            freshness.succeeded("stage", "tagging")
        assert [one.kind for one in freshness.stale()] == ["stage"]
        ticks.now += 46
        assert [one.kind for one in freshness.stale()] == ["account", "stage"]


def test_a_method_that_was_tried_only_during_an_outage_is_no_trouble_after_it(
    freshness: Freshness, ticks: Ticks
) -> None:
    freshness.watch("method", "state of a", Rule(within=45.0, part_of=("account", "a")))
    for _ in range(4):
        fail(freshness)
        fail(freshness, "state of a", "method")
        ticks.now += 20
    assert names(freshness.stale()) == ["a"]
    freshness.succeeded("account", "a")
    assert freshness.stale() == [], "it is not needed now, and nobody knows whether it is answered"
    ticks.now += 5
    fail(freshness, "state of a", "method")
    assert names(freshness.stale()) == ["state of a"]
