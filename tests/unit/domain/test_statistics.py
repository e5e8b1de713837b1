"""SPEC 3.1: the rhythm of a channel."""

from __future__ import annotations

import statistics as stdlib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.statistics import arrivals, ewma, ewma_step, intervals, percentile, summarise

pytestmark = pytest.mark.unit

START = datetime(2025, 10, 28, 12, tzinfo=UTC)
values = st.lists(st.floats(0, 1e6), min_size=2, max_size=40)


def at(*minutes: float) -> list[datetime]:
    return [START + timedelta(minutes=minute) for minute in minutes]


def test_intervals_are_between_neighbours_in_time_whatever_the_order_given() -> None:
    assert intervals(at(10, 0, 4)) == [240.0, 360.0]
    assert intervals(at(5)) == []
    assert intervals([]) == []


def test_intervals_across_summer_time_are_true_seconds() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert intervals([datetime(2025, 3, 30, 1, tzinfo=berlin), datetime(2025, 3, 30, 4, tzinfo=berlin)]) == [7200.0]


def test_spec_3_1_an_album_is_one_arrival() -> None:
    posts = [(START, None), *((moment, 77) for moment in at(10.1, 10, 10.2)), (at(30)[0], 78), (at(40)[0], None)]
    assert arrivals(posts) == at(0, 10, 30, 40)


def test_two_single_posts_of_one_moment_are_two_arrivals() -> None:
    assert arrivals([(START, None), (START, None)]) == [START, START]


@given(values)
def test_spec_3_1_percentiles_are_those_of_percentile_cont(numbers: list[float]) -> None:
    inclusive = stdlib.quantiles(numbers, n=20, method="inclusive")
    assert percentile(numbers, 0.95) == pytest.approx(inclusive[18], rel=1e-9, abs=1e-9)
    assert percentile(numbers, 0.5) == pytest.approx(stdlib.median(numbers), rel=1e-9, abs=1e-9)
    assert percentile(numbers, 0) == min(numbers)
    assert percentile(numbers, 1) == max(numbers)


def test_spec_3_1_figures_taken_from_postgresql() -> None:
    numbers = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert percentile(numbers, 0.5) == 6.0
    assert percentile(numbers, 0.95) == 28.0
    assert percentile([7.0], 0.95) == 7.0


def test_percentile_refuses_what_has_none() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile([1.0], 1.5)


@given(values, st.floats(0.01, 1))
def test_spec_3_1_ewma_weights_fall_exponentially_with_age(numbers: list[float], alpha: float) -> None:
    newest_first = numbers[::-1]
    expected = sum(alpha * (1 - alpha) ** age * value for age, value in enumerate(newest_first[:-1]))
    expected += (1 - alpha) ** (len(numbers) - 1) * numbers[0]
    assert ewma(numbers, alpha) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_spec_3_1_ewma_is_not_the_mean_and_the_newest_counts_most() -> None:
    rising = ewma([100.0, 100.0, 10.0], 0.5)
    falling = ewma([10.0, 100.0, 100.0], 0.5)
    assert (rising, falling) == (55.0, 77.5)


def test_ewma_step_goes_on_from_what_was_kept() -> None:
    kept = ewma([5.0, 7.0])
    assert ewma_step(kept, 9.0) == ewma([5.0, 7.0, 9.0])
    assert ewma([]) is None
    assert ewma([5.0, 7.0], alpha=1) == 7.0


@pytest.mark.parametrize("alpha", [0, -0.1, 1.1])
def test_a_weight_outside_of_its_range_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        ewma_step(None, 1.0, alpha=alpha)


def test_spec_8_fewer_than_three_intervals_are_no_statistics() -> None:
    assert summarise([]) is None
    assert summarise([60.0, 60.0]) is None
    stats = summarise([60.0, 60.0, 60.0])
    assert stats is not None
    assert (stats.count, stats.median, stats.p95, stats.ewma) == (3, 60.0, 60.0, 60.0)


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=40))
def test_statistics_lie_within_their_values(numbers: list[float]) -> None:
    stats = summarise(numbers)
    assert stats is not None
    low, high = min(numbers) - 1e-6, max(numbers) + 1e-6
    assert low <= stats.median <= stats.p95 + 1e-6 <= high + 1e-6
    assert low <= stats.ewma <= high


def test_lesson_10_naive_times_are_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        intervals([START.replace(tzinfo=None)])
    with pytest.raises(ValueError, match="no time zone"):
        arrivals([(START.replace(tzinfo=None), None)])
