"""SPEC 3.1: the rhythm of a channel."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from telegram_assistant.domain.silence import arrivals, intervals

pytestmark = pytest.mark.unit

START = datetime(2025, 10, 28, 12, tzinfo=UTC)


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


def test_lesson_10_naive_times_are_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        intervals([START.replace(tzinfo=None)])
    with pytest.raises(ValueError, match="no time zone"):
        arrivals([(START.replace(tzinfo=None), None)])
