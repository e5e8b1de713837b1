"""Digests are due at any minute, in any zone, over every change of clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.digests import Frequency, Schedule, last_until, moment_of, next_after, zone_named

pytestmark = pytest.mark.unit

ZONES = [
    *("UTC", "Europe/Moscow", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"),
    *("Pacific/Apia", "America/St_Johns", "Africa/Casablanca", "Asia/Tehran", "Pacific/Chatham", "Asia/Beirut"),
]
SCHEDULES = st.builds(
    Schedule,
    frequency=st.sampled_from(Frequency),
    weekday=st.integers(0, 6),
    day=st.integers(1, 31),
    minute=st.integers(0, 1439),
    zone=st.sampled_from(ZONES),
)
MOMENTS = st.datetimes(datetime(2008, 1, 1), datetime(2032, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - as hypothesis wants it


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def run(schedule: Schedule, start: datetime, count: int) -> list[datetime]:
    found = [next_after(schedule, start)]
    while len(found) < count:
        found.append(next_after(schedule, found[-1]))
    return found


@given(SCHEDULES, MOMENTS)
def test_next_and_last_belong_together(schedule: Schedule, moment: datetime) -> None:
    due, before = next_after(schedule, moment), last_until(schedule, moment)
    assert before <= moment < due
    assert last_until(schedule, due) == due, "a time that has come is the last one"
    assert last_until(schedule, due - timedelta(microseconds=1)) == before, "nothing lies between"
    assert next_after(schedule, before) == due


@given(SCHEDULES, MOMENTS)
def test_the_clock_shows_the_time_or_jumped_over_it(schedule: Schedule, moment: datetime) -> None:
    zone = ZoneInfo(schedule.zone)
    due = next_after(schedule, moment)
    shown = due.astimezone(zone)
    if (shown.hour * 60 + shown.minute, shown.second) != (schedule.minute, 0):
        earlier = (due - timedelta(seconds=1)).astimezone(zone)
        offsets = shown.utcoffset(), earlier.utcoffset()
        assert offsets[0] is not None
        assert offsets[1] is not None
        assert offsets[0] > offsets[1], "only where clocks went forward, and at that very moment"
        return
    assert shown.fold == 0, "of two equal times the first"
    if schedule.frequency is Frequency.WEEKLY:
        assert shown.weekday() == schedule.weekday
    if schedule.frequency is Frequency.MONTHLY:
        assert shown.day == schedule.day or (shown + timedelta(days=1)).day == 1


@given(SCHEDULES, MOMENTS)
def test_times_are_as_far_apart_as_they_should_be(schedule: Schedule, moment: datetime) -> None:
    least, most = {
        Frequency.DAILY: (timedelta(), timedelta(hours=49)),
        Frequency.WEEKLY: (timedelta(days=5), timedelta(days=8, hours=2)),
        Frequency.MONTHLY: (timedelta(days=26), timedelta(days=32, hours=2)),
    }[schedule.frequency]
    for one, other in pairwise(run(schedule, moment, 4)):
        assert least < other - one <= most


def test_a_time_that_does_not_exist_is_the_first_moment_after() -> None:
    daily = Schedule(minute=2 * 60 + 30, zone="Europe/Berlin")
    assert run(daily, at("2026-03-28T00:00"), 3) == [
        at("2026-03-28T02:30", "Europe/Berlin"),
        datetime(2026, 3, 29, 1, tzinfo=UTC),  # 03:00 there
        at("2026-03-30T02:30", "Europe/Berlin"),
    ]


def test_a_time_that_exists_twice_comes_once() -> None:
    daily = Schedule(minute=2 * 60 + 30, zone="Europe/Berlin")
    assert run(daily, at("2026-10-24T00:00"), 3) == [
        datetime(2026, 10, 24, 0, 30, tzinfo=UTC),
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC),  # the first of the two
        datetime(2026, 10, 26, 1, 30, tzinfo=UTC),
    ]


def test_a_half_hour_change_and_a_day_that_was_left_out() -> None:
    assert moment_of(date(2026, 10, 4), 2 * 60 + 15, ZoneInfo("Australia/Lord_Howe")) == datetime(
        2026, 10, 3, 15, 30, tzinfo=UTC
    )
    # Samoa had no 30 December 2011: that day's digest comes as the 31st begins, and the 31st has its own.
    daily = Schedule(minute=9 * 60, zone="Pacific/Apia")
    assert run(daily, at("2011-12-29T00:00", "Pacific/Apia"), 3) == [
        at("2011-12-29T09:00", "Pacific/Apia"),
        at("2011-12-31T00:00", "Pacific/Apia"),
        at("2011-12-31T09:00", "Pacific/Apia"),
    ]
    midnight = Schedule(minute=0, zone="Pacific/Apia")
    assert len(set(run(midnight, at("2011-12-29T00:01", "Pacific/Apia"), 3))) == 3, "two at one moment are one"


def test_the_31st_is_the_last_day() -> None:
    monthly = Schedule(frequency=Frequency.MONTHLY, day=31, minute=0, zone="UTC")
    days = [(due.month, due.day) for due in run(monthly, at("2024-01-15T00:00"), 5)]
    assert days == [(1, 31), (2, 29), (3, 31), (4, 30), (5, 31)]


@pytest.mark.parametrize(
    "zone",
    ["", "Nowhere/Land", "../../etc/passwd", "/etc/passwd", "Europe", "\0", "+03:00", "Москва", "a" * 500, "\ud800"],
)
def test_a_wrong_zone_is_refused_in_words(zone: str) -> None:
    with pytest.raises(ValueError, match="is no time zone; write one like Europe/Moscow"):
        zone_named(zone)


@pytest.mark.parametrize("wrong", [{"weekday": 7}, {"weekday": -1}, {"day": 0}, {"day": 32}, {"minute": 1440}])
def test_a_wrong_schedule_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)).replace("minute", "time")):
        Schedule(**wrong)
