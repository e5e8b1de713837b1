"""The day of the vision budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.vision_budget import Spent, day_of, next_day, refusal

pytestmark = pytest.mark.unit

MOSCOW = timezone(timedelta(hours=3))


def test_the_day_is_that_of_utc() -> None:
    after_midnight_in_moscow = datetime(2026, 1, 6, 1, 30, tzinfo=MOSCOW)
    assert day_of(after_midnight_in_moscow) == "2026-01-05"
    assert next_day(after_midnight_in_moscow) == datetime(2026, 1, 6, tzinfo=UTC)


@given(st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis wants naive bounds
def test_the_next_day_is_the_first_moment_of_another(now: datetime) -> None:
    coming = next_day(now)
    assert timedelta() < coming - now <= timedelta(days=1)
    assert day_of(coming) != day_of(now) == day_of(coming - timedelta(microseconds=1))


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        day_of(datetime(2026, 1, 5))  # noqa: DTZ001 - the point of this test


def test_what_is_left_and_what_is_said() -> None:
    spent = Spent(tokens=249_000, reserved=500, running=1, limit=250_000, resets_at=datetime(2026, 1, 6, tzinfo=UTC))
    assert spent.left == 500
    assert Spent(tokens=9, reserved=9, running=1, limit=10, resets_at=spent.resets_at).left == 0
    said = refusal(spent, 2_000)
    assert "249000 of 250000 tokens" in said
    assert "2000" in said
    assert "2026-01-06 00:00 UTC" in said
