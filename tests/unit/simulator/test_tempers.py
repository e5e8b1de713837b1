"""Tempers: when channels post."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from statistics import mean, variance
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telegram_simulator.tempers import tempers, times

pytestmark = pytest.mark.unit

MOSCOW = ZoneInfo("Europe/Moscow")
START = datetime(2026, 1, 5, tzinfo=UTC)
DAYS = 56
END = START + timedelta(days=DAYS)


def drawn(temper: str, rate: float = 60.0) -> list[datetime]:
    return list(times(11, temper, rate, START, END))


def dispersion(moments: list[datetime], seconds: int) -> float:
    """Variance over mean of the counts in equal slots: 1 for a Poisson process."""
    counts = Counter(int((moment - START).total_seconds()) // seconds for moment in moments)
    slots = [counts[slot] for slot in range(DAYS * 86_400 // seconds)]
    return variance(slots) / mean(slots)


def night_share(moments: list[datetime]) -> float:
    return sum(moment.astimezone(MOSCOW).hour < 7 for moment in moments) / len(moments)


@settings(max_examples=40)
@given(st.sampled_from(sorted(tempers())), st.integers(0, 10**6), st.floats(0.1, 500), st.floats(0.01, 20))
def test_moments_ascend_between_start_and_end(temper: str, seed: int, rate: float, days: float) -> None:
    end = START + timedelta(days=days)
    moments = list(times(seed, temper, rate, START, end))
    assert all(a <= b for a, b in pairwise(moments))
    assert all(START <= moment < end and moment.microsecond == 0 for moment in moments)
    assert moments == list(times(seed, temper, rate, START, end))


@pytest.mark.parametrize("temper", ["night_quiet", "round_the_clock", "weekday", "steady", "bursty"])
@pytest.mark.parametrize("rate", [2.0, 60.0, 900.0])
def test_the_rate_is_kept(temper: str, rate: float) -> None:
    noise = 6 if temper == "bursty" else 2  # clusters make the count of a burst's channel vary more
    expected = rate * DAYS
    assert abs(len(drawn(temper, rate)) - expected) < 4 * noise * expected**0.5


def test_night_quiet_sleeps_in_moscow() -> None:
    assert night_share(drawn("night_quiet")) < 0.1


def test_round_the_clock_does_not_sleep() -> None:
    assert abs(night_share(drawn("round_the_clock")) - 7 / 24) < 0.04


def test_weekday_rests_at_weekends_and_at_night() -> None:
    moments = drawn("weekday")
    assert sum(moment.astimezone(MOSCOW).weekday() > 4 for moment in moments) / len(moments) < 0.05
    assert night_share(moments) < 0.05


def test_bursty_comes_in_clusters_and_steady_does_not() -> None:
    assert dispersion(drawn("bursty"), 1800) > 5
    assert dispersion(drawn("steady"), 1800) < 1.5


def test_dead_stopped_long_ago() -> None:
    moments = drawn("dead")
    assert len(moments) > 100
    assert max(moments) < START + timedelta(days=DAYS / 4)


def test_without_an_end_the_moments_go_on_but_the_dead_stay_dead() -> None:
    assert len(list(islice(times(1, "steady", 5, START), 2000))) == 2000
    assert list(times(1, "dead", 5, START)) == []
    assert list(times(1, "steady", 0, START)) == []


def test_seeds_are_independent() -> None:
    one, two = (set(times(seed, "steady", 200, START, END)) for seed in (1, 2))
    assert len(one & two) < 0.05 * len(one)
