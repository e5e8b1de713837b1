"""How fast an account may ask, and who goes first."""

from __future__ import annotations

from datetime import timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.accounts import (
    COURTESY,
    LIMITS,
    WARM_UP,
    WARM_UP_FACTOR,
    Pace,
    Priority,
    Rate,
    limits_of,
    rank,
    warm_up,
)

pytestmark = pytest.mark.unit

rates = st.builds(Rate, st.floats(0.01, 1000), st.integers(1, 50))
limits = st.lists(rates, min_size=1, max_size=3).map(tuple)
starts = st.floats(0, 1e6)
pauses = st.lists(st.floats(0, 50), min_size=1, max_size=80)
slacks = st.floats(1, 5)


def fresh(limits: tuple[Rate, ...]) -> Pace:
    return Pace(limits, (-inf,) * len(limits))


def ask_as_soon_as_allowed(pace: Pace, start: float, pauses: list[float], slower: float = 1.0) -> list[float]:
    """When requests are made by somebody who asks `pauses` apart and waits as told."""
    made, now = [], start
    for pause in pauses:
        now = pace.next_allowed(now + pause, slower=slower)
        pace = pace.asked(now, slower=slower)
        made.append(now)
    return made


@given(limits, starts, pauses, slacks)
def test_no_stretch_of_time_holds_more_than_burst_and_rate_allow(
    limits: tuple[Rate, ...], start: float, pauses: list[float], slower: float
) -> None:
    made = ask_as_soon_as_allowed(fresh(limits), start, pauses, slower)
    for rate in limits:
        for first in range(len(made)):
            for last in range(first, len(made)):
                earned = (made[last] - made[first]) / (rate.interval * slower)
                assert last - first + 1 <= rate.burst + earned + 1e-6 * (1 + abs(made[last]))


@given(limits, starts, st.integers(0, 60))
def test_who_has_others_ahead_waits_as_long_as_they_take(limits: tuple[Rate, ...], start: float, ahead: int) -> None:
    made = ask_as_soon_as_allowed(fresh(limits), start, [0.0] * (ahead + 1))
    assert fresh(limits).next_allowed(start, ahead=ahead) == pytest.approx(made[-1], abs=1e-6)


@given(limits, starts, pauses)
def test_a_request_is_never_allowed_in_the_past(limits: tuple[Rate, ...], start: float, pauses: list[float]) -> None:
    pace = fresh(limits)
    for made in ask_as_soon_as_allowed(pace, start, pauses):
        pace = pace.asked(made)
        assert pace.next_allowed(made) >= made
        assert pace.expected_wait(made) >= 0


@given(rates, starts, st.integers(1, 100))
def test_a_long_rest_gives_the_whole_burst_back_and_not_more(rate: Rate, start: float, before: int) -> None:
    pace = fresh((rate,))
    for _ in range(before):
        pace = pace.asked(pace.next_allowed(start))
    rested = pace.marks[0] + 1e-3
    made = ask_as_soon_as_allowed(pace, rested, [0.0] * (rate.burst + 1))
    assert made[: rate.burst] == pytest.approx([rested] * rate.burst)
    assert made[-1] == pytest.approx(rested + rate.interval)


def test_usernames_are_asked_for_far_more_rarely_than_pages() -> None:
    a_day = 86_400.0
    per_day = {
        method: min(rate.burst + a_day / rate.interval for rate in limits_of(method))
        for method in ("messages.getHistory", "contacts.resolveUsername")
    }
    assert per_day["contacts.resolveUsername"] < 200  # what Telegram is known to allow
    assert per_day["messages.getHistory"] > 80_000


def test_all_limits_of_a_method_hold_at_once() -> None:
    made = ask_as_soon_as_allowed(Pace.for_method("contacts.resolveUsername"), 0.0, [0.0] * 52)
    assert made[4] == 0.0  # a few at once
    assert made[5] == 3.0  # then slowly
    assert made[51] - made[50] == 600.0  # and then hardly


@pytest.mark.parametrize("method", ["help.getConfig", "updates.getState", "auth.exportAuthorization"])
def test_what_a_connection_needs_never_waits(method: str) -> None:
    pace = Pace.for_method(method)
    assert ask_as_soon_as_allowed(pace, 5.0, [0.0] * 100) == [5.0] * 100


def test_a_method_nobody_thought_of_is_paced_too() -> None:
    assert "messages.somethingNew" not in LIMITS
    assert ask_as_soon_as_allowed(Pace.for_method("messages.somethingNew"), 0.0, [0.0] * 100)[-1] > 0


@given(st.timedeltas(timedelta(0), timedelta(days=30)), st.timedeltas(timedelta(0), timedelta(days=30)))
def test_a_young_account_is_slower_and_only_gets_faster(age: timedelta, later: timedelta) -> None:
    assert 1.0 <= warm_up(age + later) <= warm_up(age) <= WARM_UP_FACTOR


def test_the_warm_up_begins_and_ends() -> None:
    assert warm_up(timedelta(0)) == WARM_UP_FACTOR
    assert warm_up(timedelta(days=-1)) == WARM_UP_FACTOR  # our clock and the database's differ
    assert warm_up(WARM_UP) == 1.0


@given(st.sampled_from(Priority), st.sampled_from(Priority), st.floats(0, 1e6))
def test_of_those_who_come_together_the_more_urgent_goes_first(one: Priority, other: Priority, now: float) -> None:
    assert (rank(one, now) < rank(other, now)) == (one < other)


@given(st.sampled_from(Priority), st.sampled_from(Priority), st.floats(0, 1e6))
def test_nobody_is_passed_for_ever(one: Priority, other: Priority, now: float) -> None:
    assert rank(one, now) < rank(other, now + max(COURTESY.values()) + 1)


@pytest.mark.parametrize("interval,burst", [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_a_rate_that_makes_no_sense_is_refused(interval: float, burst: int) -> None:
    with pytest.raises(ValueError, match="interval > 0"):
        Rate(interval, burst)
