"""SPEC 2.6 and 3.2-3.6 at their edges: the formulas written down once more, and held against every moment and zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
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

pytestmark = pytest.mark.unit

NEW_YORK, SYDNEY = ZoneInfo("America/New_York"), ZoneInfo("Australia/Sydney")
MINUTE, HOUR = 60.0, 3600.0
LIMIT = timedelta(hours=24)

p95s = st.one_of(st.floats(0, 20 * HOUR), st.floats(0, 1e12), st.sampled_from([20 * MINUTE, 8 * HOUR, 4 * MINUTE]))
# From before Moscow gave summer time up, and across the changes of every year.
moments = st.timedeltas(timedelta(0), timedelta(days=30 * 365)).map(datetime(2005, 1, 1, tzinfo=UTC).__add__)
zones = st.sampled_from([MOSCOW, NEW_YORK, SYDNEY, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kathmandu"), UTC])


def wall(now: datetime, zone: ZoneInfo) -> tuple[bool, bool]:
    """Whether the clock on the wall and the calendar beside it say night, and weekend."""
    shown = now.astimezone(zone)
    return shown.hour >= 22 or shown.hour < 8, shown.strftime("%a") in {"Sat", "Sun"}


@given(p95s)
def test_spec_2_6_the_overlap_is_its_formula(p95: float) -> None:
    assert overlap(p95).total_seconds() == pytest.approx(min(max(p95 * 0.5, 2 * MINUTE), 10 * MINUTE), abs=1e-6)


@given(p95s, moments, zones)
def test_spec_3_2_the_threshold_is_its_formula(p95: float, now: datetime, zone: ZoneInfo) -> None:
    night, weekend = wall(now, zone)
    expected = min(max(p95 * 1.5, 30 * MINUTE), 12 * HOUR) * (1.5 if night else 1) * (1.8 if weekend else 1)
    assert threshold(p95, now, zone=zone).total_seconds() == pytest.approx(min(expected, 24 * HOUR), abs=1e-4)


@given(p95s, moments, zones)
def test_spec_3_2_the_cap_is_reached_by_both_factors_only(p95: float, now: datetime, zone: ZoneInfo) -> None:
    assert threshold(p95, now, zone=zone) <= LIMIT
    if threshold(p95, now, zone=zone) == LIMIT:
        assert wall(now, zone) == (True, True)
        assert p95 * 1.5 * 2.7 >= 24 * HOUR - 1e-3


@given(moments, zones)
def test_spec_3_2_too_little_data_is_an_hour_at_any_time(now: datetime, zone: ZoneInfo) -> None:
    assert threshold(None, now, zone=zone) == timedelta(hours=1)


@given(moments, zones)
def test_spec_3_3_quiet_hours_are_what_the_wall_says(now: datetime, zone: ZoneInfo) -> None:
    night, weekend = wall(now, zone)
    expected = (True, "weekend") if weekend else (True, "night_hours") if night else (False, "normal")
    assert quiet_hours(now, zone) == expected


@given(st.dates(datetime(2005, 1, 2, tzinfo=UTC).date(), datetime(2034, 1, 1, tzinfo=UTC).date()), zones)
def test_spec_3_3_midnight_belongs_to_the_new_day(day: object, zone: ZoneInfo) -> None:
    midnight = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=zone)
    before, at = midnight.astimezone(UTC) - timedelta(microseconds=1), midnight.astimezone(UTC)
    assume(at.astimezone(zone).hour == 0)  # where clocks change at midnight there may be none
    weekend = midnight.strftime("%a") in {"Sat", "Sun"}
    assert quiet_hours(at, zone).reason == ("weekend" if weekend else "night_hours")
    ends_weekend = midnight.strftime("%a") in {"Sun", "Mon"}
    assert quiet_hours(before, zone).reason == ("weekend" if ends_weekend else "night_hours")


@pytest.mark.parametrize(
    "zone,night_ends",
    [
        # Moscow had summer time until 2011: clocks went forward on Sunday 2010-03-28, and back on 2010-10-31.
        pytest.param(MOSCOW, ("2010-03-26T05:00Z", "2010-03-29T04:00Z"), id="Moscow, forward"),
        pytest.param(MOSCOW, ("2010-10-29T04:00Z", "2010-11-01T05:00Z"), id="Moscow, back"),
        pytest.param(MOSCOW, ("2026-03-27T05:00Z", "2026-03-30T05:00Z"), id="Moscow, nowadays"),
        pytest.param(NEW_YORK, ("2026-03-06T13:00Z", "2026-03-09T12:00Z"), id="New York, forward"),
        pytest.param(NEW_YORK, ("2026-10-30T12:00Z", "2026-11-02T13:00Z"), id="New York, back"),
        pytest.param(SYDNEY, ("2026-04-02T21:00Z", "2026-04-05T22:00Z"), id="Sydney, back in autumn"),
    ],
)
def test_spec_3_3_eight_in_the_morning_moves_with_summer_time(zone: ZoneInfo, night_ends: tuple[str, str]) -> None:
    """The Friday before the change, and the Monday after it."""
    for text in night_ends:
        eight = datetime.fromisoformat(text)
        assert quiet_hours(eight, zone) == (False, "normal")
        assert quiet_hours(eight - timedelta(microseconds=1), zone) == (True, "night_hours")
        assert threshold(2 * HOUR, eight - timedelta(microseconds=1), zone=zone) == timedelta(hours=4.5)
        assert threshold(2 * HOUR, eight, zone=zone) == timedelta(hours=3)


@pytest.mark.parametrize("change", ["2026-03-29T00:30Z", "2026-10-25T00:30Z"])
def test_spec_3_2_on_a_weekend_night_with_a_change_of_clocks_both_factors_hold(change: str) -> None:
    berlin, begin = ZoneInfo("Europe/Berlin"), datetime.fromisoformat(change)
    for minutes in range(0, 180, 10):
        assert threshold(2 * HOUR, begin + timedelta(minutes=minutes), zone=berlin) == timedelta(hours=3 * 1.5 * 1.8)


@given(moments, st.timedeltas(timedelta(0), timedelta(days=400)), st.none() | p95s, zones, st.booleans())
def test_spec_3_4_a_post_dated_in_the_future_is_never_a_gap(
    now: datetime, ahead: timedelta, p95: float | None, zone: ZoneInfo, adaptive: bool
) -> None:
    report = report_gap(now, now + ahead, p95, zone=zone, adaptive=adaptive)
    assert report.gap == timedelta(0)
    assert not report.exceeded


@given(moments, st.timedeltas(timedelta(0), timedelta(days=60)), st.none() | p95s, zones, st.booleans())
def test_spec_3_4_a_silence_is_a_gap_just_when_it_is_above_the_threshold(
    now: datetime, silence: timedelta, p95: float | None, zone: ZoneInfo, adaptive: bool
) -> None:
    report = report_gap(now, now - silence, p95, zone=zone, adaptive=adaptive)
    assert report.gap == gap(now, now - silence) == silence
    assert report.exceeded == (silence > threshold(p95, now, zone=zone, adaptive=adaptive))
    if silence > LIMIT:
        assert report.exceeded, "whatever the channel, after a day somebody looks"


@given(moments, zones)
def test_spec_3_6_windows_follow_each_other_without_a_gap_also_over_summer_time(now: datetime, zone: ZoneInfo) -> None:
    start = backfill_window_start(now.astimezone(zone))
    assert backfill_window_start(start - timedelta(microseconds=1)) == start - timedelta(minutes=10)
    assert backfill_window_start(start + timedelta(minutes=10)) == start + timedelta(minutes=10)
