"""What a channel's posts say about when it posts: sums that grow with each post, and the factors that follow."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.rhythm import (
    DAY,
    HALF_LIFE,
    HOUR,
    Rhythm,
    Shape,
    expected_since,
    learn,
    recent,
    shape_of,
    shrunk,
)

pytestmark = pytest.mark.unit

MONDAY = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
MOSCOW = 3 * HOUR

gaps = st.lists(st.integers(1, 200_000), min_size=1, max_size=60)
offsets = st.sampled_from([0.0, MOSCOW, -5 * HOUR, 5.75 * HOUR])


def after(seconds: list[int], begin: float = MONDAY) -> list[float]:
    """The moments that lie so far apart."""
    moments, moment = [], begin
    for gap in seconds:
        moment += gap
        moments.append(moment)
    return moments


def poisson(rate: float, days: int, seed: int = 1, *, begin: float = MONDAY) -> list[float]:
    """Posts by pure chance, so many a day."""
    rng, moment, found = Random(seed), begin, []
    while (moment := moment + rng.expovariate(rate / DAY)) < begin + days * DAY:
        found.append(float(round(moment)))
    return found


@given(gaps, offsets)
def test_every_second_and_every_post_is_counted_once_in_each_sum(seconds: list[int], offset: float) -> None:
    rhythm = learn(Rhythm.begin(MONDAY), after(seconds), offset)
    for parts in (rhythm.hours, rhythm.days, rhythm.minutes):
        assert sum(parts) == pytest.approx(rhythm.posts)
    for parts in (rhythm.hour_seconds, rhythm.day_seconds):
        assert sum(parts) == pytest.approx(rhythm.seconds)
    assert rhythm.last == MONDAY + sum(seconds)


@given(gaps, offsets)
def test_what_is_known_already_teaches_nothing(seconds: list[int], offset: float) -> None:
    """Visits overlap, several processes hear the same, and an album's items have one moment."""
    moments = after(seconds)
    rhythm = learn(Rhythm.begin(MONDAY), moments, offset)
    assert learn(rhythm, moments, offset) == rhythm
    assert learn(Rhythm.begin(MONDAY), [moment for moment in moments for _ in range(3)], offset) == rhythm


@given(gaps, offsets, st.integers(0, 60))
def test_learning_in_two_parts_counts_the_same(seconds: list[int], offset: float, cut: int) -> None:
    moments = after(seconds)
    whole = learn(Rhythm.begin(MONDAY), moments, offset)
    parts = learn(learn(Rhythm.begin(MONDAY), moments[:cut], offset), moments[cut:], offset)
    assert (parts.posts, parts.seconds) == pytest.approx((whole.posts, whole.seconds))
    assert parts.hours == pytest.approx(whole.hours)
    assert parts.day_seconds == pytest.approx(whole.day_seconds)


@given(gaps, offsets)
def test_learning_leaves_what_was_learned_before_as_it_was(seconds: list[int], offset: float) -> None:
    before = learn(Rhythm.begin(MONDAY), after(seconds), offset)
    kept = before.to_json()
    learn(before, after([100, 100], before.last), offset)
    assert before.to_json() == kept


@given(gaps, offsets)
def test_it_survives_the_database(seconds: list[int], offset: float) -> None:
    rhythm = learn(Rhythm.begin(MONDAY), after(seconds), offset)
    stored = json.loads(json.dumps(rhythm.to_json()))
    again = Rhythm.from_json(stored)
    assert again.to_json() == stored
    assert (again.last, again.posts) == pytest.approx((rhythm.last, rhythm.posts), abs=1e-3)
    assert again.contagion == pytest.approx(rhythm.contagion, abs=1e-2)


def test_it_stays_small() -> None:
    rhythm = learn(Rhythm.begin(MONDAY), poisson(300, 60), MOSCOW)
    assert len(json.dumps(rhythm.to_json())) < 2500


def test_hours_are_those_of_the_channels_clock() -> None:
    """A post at nine in Moscow each day, for four weeks."""
    nine = [MONDAY - MOSCOW + 9 * HOUR + day * DAY + 60 * (day % 7) for day in range(28)]
    rhythm = learn(Rhythm.begin(MONDAY - MOSCOW), nine, MOSCOW)
    shape = shape_of(rhythm)
    assert max(range(24), key=lambda hour: shape.hours[hour]) == 9
    assert shape.hours[9] > 5
    assert shape.hours[21] < 0.5
    assert rhythm.hours[9] == pytest.approx(rhythm.posts)


def test_weekdays_are_those_of_the_channels_clock() -> None:
    """Posts around one in the night of Saturday in Moscow are still of Friday in London."""
    night = MONDAY + 4 * DAY + 22 * HOUR  # Friday 22:00 UTC
    assert learn(Rhythm.begin(MONDAY), [night], MOSCOW).days[5] > 0.8
    assert learn(Rhythm.begin(MONDAY), [night], 0.0).days[4] > 0.8


@pytest.mark.parametrize("seed", range(5))
def test_chance_is_not_taken_for_a_habit(seed: int) -> None:
    shape = shape_of(learn(Rhythm.begin(MONDAY), poisson(40, 40, seed), MOSCOW))
    assert all(0.7 < factor < 1.4 for factor in shape.week)


def test_bursts_are_told_from_chance() -> None:
    starts = poisson(6, 40)
    burst = sorted(moment + 90 * number for moment in starts for number in range(5))
    assert learn(Rhythm.begin(MONDAY), burst, MOSCOW).contagion > 0.6
    assert learn(Rhythm.begin(MONDAY), poisson(30, 40), MOSCOW).contagion < 0.2


def test_the_past_is_forgotten_by_half_in_four_weeks() -> None:
    busy = learn(Rhythm.begin(MONDAY), poisson(100, 56), MOSCOW)
    slow = learn(busy, poisson(1, 56, begin=busy.last), MOSCOW)
    kept = sum(busy.hours) * 0.5 ** ((slow.faded - busy.faded) / HALF_LIFE)
    assert kept < slow.posts < kept + 56
    assert slow.usual * DAY < 30


def test_a_lasting_silence_is_believed() -> None:
    rhythm = learn(Rhythm.begin(MONDAY), poisson(50, 30), MOSCOW)
    shape = shape_of(rhythm)
    factors = [
        recent(rhythm, expected_since(rhythm, shape, rhythm.last + silence, MOSCOW))
        for silence in (0.0, HOUR, 6 * HOUR, DAY, 7 * DAY)
    ]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] < 0.1


@given(st.lists(st.integers(0, 50), min_size=2, max_size=24), st.floats(0.25, 4))
def test_shrinking_keeps_the_order_and_the_mean_in_reach(counts: list[int], scatter: float) -> None:
    factors = shrunk(counts, [1.0] * len(counts), scatter)
    if factors is None:
        return
    assert all(factor > 0 for factor in factors)
    mean = sum(counts) / len(counts)
    for count, factor in zip(counts, factors, strict=True):
        assert min(1.0, count / mean) - 1e-9 <= factor <= max(1.0, count / mean) + 1e-9


def test_without_posts_nothing_is_said() -> None:
    assert shrunk([0, 0], [1.0, 1.0]) is None
    assert shape_of(Rhythm.begin(MONDAY)) == Shape()


@given(st.floats(0, 3 * 7 * DAY), st.floats(0, 3 * 7 * DAY))
def test_the_time_between_is_that_of_the_hours_within(one: float, other: float) -> None:
    shape = Shape(hours=[1.0 + hour for hour in range(24)], days=[1.0, 2.0, 3.0, 1.0, 1.0, 0.0, 0.5])
    begin, end = sorted((one, other))
    steps = [begin, *(hour * HOUR for hour in range(int(begin // HOUR) + 1, int(end // HOUR) + 1)), end]
    pieces = sum((b - a) * shape.at(int(a // HOUR)) for a, b in pairwise(steps))
    assert shape.between(begin, end) == pytest.approx(pieces, rel=1e-6, abs=1e-3)
