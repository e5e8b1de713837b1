"""SPEC 7.2, LESSONS 10: aware datetimes only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from telegram_assistant.domain.moments import as_utc

pytestmark = pytest.mark.unit


def test_lesson_10_a_naive_datetime_is_refused() -> None:
    naive = datetime(2025, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None)
    with pytest.raises(ValueError, match="no time zone"):
        as_utc(naive)


def test_the_same_moment_from_any_zone() -> None:
    nepal = timezone(timedelta(hours=5, minutes=45))
    assert as_utc(datetime(2025, 1, 1, 17, 45, tzinfo=nepal)) == datetime(2025, 1, 1, 12, tzinfo=UTC)
    assert as_utc(datetime(2025, 1, 1, 17, 45, tzinfo=nepal)).tzinfo is UTC


def test_the_repeated_hour_of_a_summer_times_end_is_told_apart_by_fold() -> None:
    first = datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert as_utc(first.replace(fold=1)) - as_utc(first) == timedelta(hours=1)
