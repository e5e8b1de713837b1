"""SPEC 1.6: retries."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.retries import DEFAULT_BACKOFF, MAX_RETRIES, Backoff, Failure, next_delay

pytestmark = pytest.mark.unit


def rng(seed: int = 1) -> Random:
    return Random(seed)


def delays(
    failure: Failure, count: int, *, backoff: Backoff = DEFAULT_BACKOFF, max_retries: int = MAX_RETRIES
) -> list[float | None]:
    return [
        next_delay(attempt, failure, None, rng(), backoff=backoff, max_retries=max_retries)
        for attempt in range(1, count + 1)
    ]


def test_spec_1_6_transient_failures_back_off_exponentially_and_end() -> None:
    assert delays(Failure.TRANSIENT, 5) == [1.0, 2.0, 4.0, None, None]


def test_spec_1_6_the_number_of_retries_is_a_setting() -> None:
    assert delays(Failure.TRANSIENT, 3, max_retries=1) == [1.0, None, None]
    assert delays(Failure.TRANSIENT, 1, max_retries=0) == [None]


def test_spec_1_6_the_backoff_has_a_cap() -> None:
    backoff = Backoff(base=10, factor=10, cap=500)
    assert delays(Failure.TRANSIENT, 4, backoff=backoff, max_retries=9) == [10, 100, 500, 500]
    assert backoff.delay(100_000) == 500
    assert Backoff().delay(7) == 60


def test_a_backoff_may_be_constant() -> None:
    assert Backoff(base=5, factor=1, cap=5).delay(9) == 5


@given(st.floats(0, 86_400), st.integers(1, 3), st.integers())
def test_spec_1_6_flood_waits_what_telegram_names_plus_up_to_3_seconds(seconds: float, attempt: int, seed: int) -> None:
    delay = next_delay(attempt, Failure.FLOOD, seconds, rng(seed))
    assert delay is not None
    assert seconds <= delay <= seconds + 3


def test_spec_1_6_flood_jitter_spreads_over_its_range() -> None:
    shared = rng()
    jitters = [(next_delay(1, Failure.FLOOD, 100, shared) or 0) - 100 for _ in range(300)]
    assert min(jitters) < 0.3
    assert max(jitters) > 2.7


def test_spec_1_6_floods_are_retried_as_often_as_anything() -> None:
    assert next_delay(3, Failure.FLOOD, 5, rng()) is not None
    assert next_delay(4, Failure.FLOOD, 5, rng()) is None


def test_an_expired_reference_is_retried_at_once() -> None:
    assert delays(Failure.REFERENCE_EXPIRED, 4) == [0.0, 0.0, 0.0, None]


@pytest.mark.parametrize("failure", [Failure.CHANNEL_PRIVATE, Failure.GONE, Failure.ACCOUNT, Failure.FATAL])
def test_what_another_attempt_cannot_change_is_not_retried(failure: Failure) -> None:
    assert delays(failure, 1) == [None]


@pytest.mark.parametrize("seconds", [None, -1.0])
def test_a_flood_without_its_seconds_is_a_mistake(seconds: float | None) -> None:
    with pytest.raises(ValueError, match="names the seconds"):
        next_delay(1, Failure.FLOOD, seconds, rng())


def test_attempts_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        Backoff().delay(0)
    with pytest.raises(ValueError, match="from 1"):
        next_delay(0, Failure.TRANSIENT, None, rng())


@pytest.mark.parametrize("base,factor,cap", [(0, 2, 60), (-1, 2, 60), (1, 0.5, 60), (61, 2, 60)])
def test_a_backoff_that_shrinks_is_refused(base: float, factor: float, cap: float) -> None:
    with pytest.raises(ValueError, match="base <= cap"):
        Backoff(base, factor, cap)
