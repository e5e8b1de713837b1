"""SPEC 6.2, 7.3 and 8: health by the age of the last tick and by the outcome of ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.domain.health_status import ParserStatus, SchedulerStatus, parser_status, scheduler_status

pytestmark = pytest.mark.unit

NOW = datetime(2025, 10, 28, 12, tzinfo=UTC)
INTERVAL = timedelta(seconds=300)


@pytest.mark.parametrize(
    "age,status",
    [(0, "ok"), (300, "ok"), (600, "ok"), (600.000001, "stale"), (1200, "stale"), (1200.000001, "down"), (-60, "ok")],
)
def test_spec_8_status_by_age_of_the_last_tick(age: float, status: str) -> None:
    assert scheduler_status(NOW - timedelta(seconds=age), NOW, INTERVAL) == status


def test_spec_7_5_a_scheduler_that_never_ticked_is_down() -> None:
    assert scheduler_status(None, NOW, INTERVAL) is SchedulerStatus.DOWN


def test_an_interval_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        scheduler_status(NOW, NOW, timedelta(0))


def test_spec_7_2_naive_times_are_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        scheduler_status(NOW.replace(tzinfo=None), NOW, INTERVAL)


@pytest.mark.parametrize(
    "active,failing,failing_twice,dead,status",
    [
        (3, 3, 3, 0, "failing"),  # all of them, twice: red although it ticks
        (3, 3, 2, 0, "degraded"),
        (3, 1, 1, 0, "degraded"),
        (3, 0, 0, 0, "ok"),
        (1, 1, 1, 0, "failing"),
        (0, 0, 0, 2, "failing"),  # given up, every one: nothing is parsed any more
        (2, 0, 0, 1, "degraded"),
        (2, 2, 2, 1, "failing"),
        (0, 0, 0, 0, "ok"),  # nothing to watch is not a failure
    ],
)
def test_spec_7_3_status_by_what_visits_achieve(
    active: int, failing: int, failing_twice: int, dead: int, status: str
) -> None:
    found = parser_status(active=active, failing=failing, failing_twice=failing_twice, dead=dead)
    assert found is ParserStatus(status)
