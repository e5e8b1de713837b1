"""SPEC 2.6 and 3.2-3.6: overlap, threshold, quiet hours, gap, backfill window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.silence import (
    MOSCOW,
    backfill_window_start,
    gap,
    overlap,
    quiet_hours,
    report_gap,
    threshold,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.unit

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600.0
TUESDAY_NOON = datetime(2025, 10, 28, 12, tzinfo=MOSCOW)
TUESDAY_NIGHT = datetime(2025, 10, 28, 23, tzinfo=MOSCOW)
SATURDAY_NOON = datetime(2025, 11, 1, 12, tzinfo=MOSCOW)
SATURDAY_NIGHT = datetime(2025, 11, 1, 23, tzinfo=MOSCOW)

p95s = st.floats(0, 1e9)
moments = st.timedeltas(timedelta(0), timedelta(days=40 * 365)).map(datetime(2000, 1, 2, tzinfo=UTC).__add__)
zones = st.sampled_from([MOSCOW, BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu"), UTC])


# ---- overlap


@pytest.mark.parametrize(
    "p95,minutes",
    [(0, 2), (4 * 60, 2), (4 * 60 + 2, 2 + 1 / 60), (600, 5), (20 * 60, 10), (1e12, 10), (float("inf"), 10)],
)
def test_spec_2_6_overlap_is_half_of_p95_between_2_and_10_minutes(p95: float, minutes: float) -> None:
    assert overlap(p95) == timedelta(minutes=minutes)


def test_spec_2_6_overlap_is_5_minutes_without_data_or_feature() -> None:
    assert overlap(None) == timedelta(minutes=5)
    assert overlap(20 * 60, adaptive=False) == timedelta(minutes=5)


# ---- threshold


@pytest.mark.parametrize(
    "p95,hours", [(0, 0.5), (20 * 60, 0.5), (HOUR, 1.5), (8 * HOUR, 12), (9 * HOUR, 12), (1e12, 12), (float("inf"), 12)]
)
def test_spec_3_2_threshold_by_day_is_one_and_a_half_p95_between_30_minutes_and_12_hours(
    p95: float, hours: float
) -> None:
    assert threshold(p95, TUESDAY_NOON) == timedelta(hours=hours)


@pytest.mark.parametrize(
    "now,hours",
    [
        pytest.param(TUESDAY_NOON, 3, id="day"),
        pytest.param(TUESDAY_NIGHT, 4.5, id="night"),
        pytest.param(SATURDAY_NOON, 5.4, id="weekend"),
        pytest.param(SATURDAY_NIGHT, 8.1, id="weekend-night: both factors"),
    ],
)
def test_spec_3_2_threshold_grows_at_night_and_at_the_weekend(now: datetime, hours: float) -> None:
    assert threshold(2 * HOUR, now) == timedelta(hours=hours)


@pytest.mark.parametrize(
    "now,hours", [(TUESDAY_NIGHT, 18), (SATURDAY_NOON, 21.6), (SATURDAY_NIGHT, 24)], ids=["night", "weekend", "both"]
)
def test_spec_3_2_threshold_is_never_over_24_hours(now: datetime, hours: float) -> None:
    assert threshold(100 * HOUR, now) == timedelta(hours=hours)


@pytest.mark.parametrize("now", [TUESDAY_NOON, TUESDAY_NIGHT, SATURDAY_NIGHT])
def test_spec_3_2_threshold_is_a_fixed_hour_without_data_or_feature(now: datetime) -> None:
    assert threshold(None, now) == timedelta(hours=1)
    assert threshold(8 * HOUR, now, adaptive=False) == timedelta(hours=1)


@given(p95s, p95s, moments, zones)
def test_spec_3_2_threshold_is_bounded_and_grows_with_p95(a: float, b: float, now: datetime, zone: ZoneInfo) -> None:
    low, high = sorted((threshold(a, now, zone=zone), threshold(b, now, zone=zone)))
    assert timedelta(minutes=30) <= low <= high <= timedelta(hours=24)
    assert (threshold(min(a, b), now, zone=zone), threshold(max(a, b), now, zone=zone)) == (low, high)


@given(p95s, moments, zones)
def test_spec_3_2_threshold_is_longer_than_by_day_only_in_quiet_hours(
    p95: float, now: datetime, zone: ZoneInfo
) -> None:
    by_day = threshold(p95, TUESDAY_NOON)
    assert (threshold(p95, now, zone=zone) > by_day) == quiet_hours(now, zone).quiet


# ---- quiet hours

BEFORE = timedelta(microseconds=1)


@pytest.mark.parametrize(
    "now,expected",
    [
        pytest.param(datetime(2025, 10, 28, 22, tzinfo=MOSCOW) - BEFORE, (False, "normal"), id="before 22:00"),
        pytest.param(datetime(2025, 10, 28, 22, tzinfo=MOSCOW), (True, "night_hours"), id="22:00"),
        pytest.param(datetime(2025, 10, 29, 0, tzinfo=MOSCOW), (True, "night_hours"), id="midnight in the week"),
        pytest.param(datetime(2025, 10, 29, 8, tzinfo=MOSCOW) - BEFORE, (True, "night_hours"), id="before 08:00"),
        pytest.param(datetime(2025, 10, 29, 8, tzinfo=MOSCOW), (False, "normal"), id="08:00"),
        pytest.param(datetime(2025, 11, 1, 0, tzinfo=MOSCOW) - BEFORE, (True, "night_hours"), id="end of Friday"),
        pytest.param(datetime(2025, 11, 1, 0, tzinfo=MOSCOW), (True, "weekend"), id="Saturday begins"),
        pytest.param(datetime(2025, 11, 1, 12, tzinfo=MOSCOW), (True, "weekend"), id="Saturday noon"),
        pytest.param(datetime(2025, 11, 1, 23, tzinfo=MOSCOW), (True, "weekend"), id="weekend and night together"),
        pytest.param(datetime(2025, 11, 3, 0, tzinfo=MOSCOW) - BEFORE, (True, "weekend"), id="end of Sunday"),
        pytest.param(datetime(2025, 11, 3, 0, tzinfo=MOSCOW), (True, "night_hours"), id="Monday begins"),
        pytest.param(datetime(2025, 10, 31, 21, tzinfo=UTC), (True, "weekend"), id="Friday in UTC, Saturday in Moscow"),
        pytest.param(datetime(2025, 10, 28, 19, tzinfo=UTC), (True, "night_hours"), id="22:00 in Moscow"),
        pytest.param(datetime(2025, 10, 28, 5, tzinfo=UTC), (False, "normal"), id="08:00 in Moscow"),
    ],
)
def test_spec_3_3_quiet_hours_in_moscow(now: datetime, expected: tuple[bool, str]) -> None:
    assert quiet_hours(now) == expected


@pytest.mark.parametrize(
    "now,expected",
    [
        # Moscow kept summer time all year from 2011, and winter time since 2014.
        pytest.param(datetime(2012, 1, 10, 18, tzinfo=UTC), (True, "night_hours"), id="UTC+4 in the winter of 2012"),
        pytest.param(datetime(2025, 1, 14, 18, tzinfo=UTC), (False, "normal"), id="UTC+3 in the winter of 2025"),
    ],
)
def test_spec_3_3_quiet_hours_know_moscows_history(now: datetime, expected: tuple[bool, str]) -> None:
    assert quiet_hours(now) == expected


@pytest.mark.parametrize(
    "now,expected",
    [
        # Summer time begins on Sunday 2025-03-30 at 01:00 UTC and ends on Sunday 2025-10-26 at 01:00 UTC.
        pytest.param(datetime(2025, 3, 28, 6, 59, tzinfo=UTC), (True, "night_hours"), id="winter: 07:59"),
        pytest.param(datetime(2025, 3, 28, 7, tzinfo=UTC), (False, "normal"), id="winter: 08:00"),
        pytest.param(datetime(2025, 3, 30, 21, 59, tzinfo=UTC), (True, "weekend"), id="summer: Sunday 23:59"),
        pytest.param(datetime(2025, 3, 30, 22, tzinfo=UTC), (True, "night_hours"), id="summer: Monday 00:00"),
        pytest.param(datetime(2025, 3, 31, 5, 59, tzinfo=UTC), (True, "night_hours"), id="summer: 07:59"),
        pytest.param(datetime(2025, 3, 31, 6, tzinfo=UTC), (False, "normal"), id="summer: 08:00"),
        pytest.param(datetime(2025, 10, 26, 22, 59, tzinfo=UTC), (True, "weekend"), id="winter again: Sunday 23:59"),
        pytest.param(datetime(2025, 10, 26, 23, tzinfo=UTC), (True, "night_hours"), id="winter again: Monday 00:00"),
    ],
)
def test_spec_3_3_quiet_hours_in_a_zone_with_summer_time(now: datetime, expected: tuple[bool, str]) -> None:
    assert quiet_hours(now, BERLIN) == expected


@given(moments, zones, zones)
def test_spec_3_3_only_the_moment_counts_not_how_it_is_written(
    now: datetime, zone: ZoneInfo, written_in: ZoneInfo
) -> None:
    assert quiet_hours(now.astimezone(written_in), zone) == quiet_hours(now, zone)
    assert threshold(HOUR, now.astimezone(written_in), zone=zone) == threshold(HOUR, now, zone=zone)


# ---- gap


@given(moments, st.timedeltas(timedelta(days=-400), timedelta(days=400)), zones)
def test_spec_3_4_gap_is_never_negative(now: datetime, age: timedelta, zone: ZoneInfo) -> None:
    assert gap(now, (now - age).astimezone(zone)) == max(timedelta(0), age)


def test_spec_3_4_gap_across_the_begin_of_summer_time() -> None:
    before, after = datetime(2025, 3, 30, 1, tzinfo=BERLIN), datetime(2025, 3, 30, 4, tzinfo=BERLIN)
    assert after - before == timedelta(hours=3)  # what Python says of two wall clocks in one zone
    assert gap(after, before) == timedelta(hours=2)


def test_spec_3_4_a_post_dated_in_the_future_is_no_gap() -> None:
    report = report_gap(TUESDAY_NOON, TUESDAY_NOON + timedelta(days=3), HOUR)
    assert report.gap == timedelta(0)
    assert not report.exceeded


def test_spec_3_4_a_gap_is_above_the_threshold_not_at_it() -> None:
    at = report_gap(TUESDAY_NOON, TUESDAY_NOON - timedelta(hours=1.5), HOUR)
    assert not at.exceeded
    above = report_gap(TUESDAY_NOON, TUESDAY_NOON - timedelta(hours=1.5, microseconds=1), HOUR)
    assert above.exceeded
    assert above.quiet_hours == (False, "normal")


def test_spec_3_4_a_gap_is_reported_with_its_quiet_hours() -> None:
    report = report_gap(SATURDAY_NIGHT, SATURDAY_NIGHT - timedelta(hours=8), 2 * HOUR)
    assert (report.quiet_hours, report.exceeded) == ((True, "weekend"), False)
    assert report_gap(SATURDAY_NIGHT, SATURDAY_NIGHT - timedelta(hours=8), 2 * HOUR, adaptive=False).exceeded


# ---- backfill window


@pytest.mark.parametrize("minute,second,rounded", [(0, 0, 0), (9, 59, 0), (10, 0, 10), (19, 59, 10), (59, 59, 50)])
def test_spec_3_6_window_start_is_rounded_down_to_10_minutes(minute: int, second: int, rounded: int) -> None:
    moment = datetime(2025, 10, 28, 23, minute, second, 999_999, tzinfo=UTC)
    assert backfill_window_start(moment) == datetime(2025, 10, 28, 23, rounded, tzinfo=UTC)


@given(moments, zones)
def test_spec_3_6_window_start_is_one_per_window_whatever_the_zone(moment: datetime, zone: ZoneInfo) -> None:
    start = backfill_window_start(moment.astimezone(zone))
    assert start == backfill_window_start(moment)
    assert backfill_window_start(start) == start
    assert start <= moment < start + timedelta(minutes=10)
    assert start.tzinfo is UTC


def test_spec_3_6_a_zone_with_an_odd_offset_has_the_same_windows() -> None:
    odd = timezone(timedelta(hours=5, minutes=45))
    assert backfill_window_start(datetime(2025, 10, 28, 12, 50, tzinfo=odd)) == datetime(2025, 10, 28, 7, tzinfo=UTC)


# ---- naive times


def test_spec_7_2_naive_times_are_refused_everywhere() -> None:
    naive = TUESDAY_NOON.replace(tzinfo=None)
    calls: list[Callable[[], object]] = [
        lambda: threshold(HOUR, naive),
        lambda: threshold(None, naive),
        lambda: quiet_hours(naive),
        lambda: gap(naive, TUESDAY_NOON),
        lambda: gap(TUESDAY_NOON, naive),
        lambda: backfill_window_start(naive),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="no time zone"):
            call()
