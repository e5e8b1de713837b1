"""SPEC 6.2, 7.3 and 8: health by the age of the last tick and by the outcome of ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.domain.health_status import (
    ParserStatus,
    Promises,
    SchedulerStatus,
    parser_status,
    promised_at,
    scheduler_status,
)

pytestmark = pytest.mark.unit

NOW = datetime(2025, 10, 28, 12, tzinfo=UTC)
INTERVAL = timedelta(seconds=300)


@pytest.mark.parametrize(
    "age,status",
    [
        (0, "ok"),
        (300, "ok"),
        (600, "ok"),
        (600.000001, "stale"),
        (1200, "stale"),
        (1200.000001, "down"),
        (-4, "ok"),
        (-60, "stale"),
    ],
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
    "found,status",
    [
        (Promises(active=1000), "ok"),
        (Promises(active=1000, overdue=990), "failing"),  # N1: 99 % are not ok
        (Promises(active=1000, overdue=501), "failing"),
        (Promises(active=1000, overdue=500), "degraded"),
        (Promises(active=1000, overdue=100), "degraded"),
        (Promises(active=1000, overdue=99), "ok"),  # a little late, and there are many
        (Promises(active=1000, overdue=1, late=1), "degraded"),  # one, by twice its promise
        (Promises(active=1, overdue=1), "failing"),
        (Promises(active=2, overdue=1), "degraded"),
        (Promises(active=3, failing_twice=3), "failing"),
        (Promises(active=3, failing_twice=2), "failing"),
        (Promises(active=3, failing_twice=1), "ok"),  # its own time tells
        (Promises(active=2000, visits=40, visits_failed=39), "failing"),  # long before half of them are overdue
        (Promises(active=2000, visits=40, visits_failed=31), "ok"),
        (Promises(active=2000, visits=7, visits_failed=7), "ok"),  # too few to say
        (Promises(dead=2), "failing"),  # given up, every one: nothing is parsed any more
        (Promises(active=2, dead=1), "degraded"),  # until it is revived or removed
        (Promises(active=2, dead=2, overdue=1), "failing"),
        (Promises(), "ok"),  # nothing to watch is not a failure
    ],
)
def test_n1_status_by_promises(found: Promises, status: str) -> None:
    assert parser_status(found) is ParserStatus(status)


@pytest.mark.parametrize(
    "planned,promised",
    [(None, 600), (300, 600), (5, 305), (3600, 5400), (-10, 300)],
)
def test_a_promise_is_the_next_visit_and_some_grace(planned: float | None, promised: float) -> None:
    at = None if planned is None else NOW + timedelta(seconds=planned)
    assert promised_at(NOW, at, INTERVAL) == NOW + timedelta(seconds=promised)


def test_n2_a_tick_in_the_future_is_not_ok() -> None:
    assert scheduler_status(NOW + timedelta(days=1), NOW, INTERVAL) is SchedulerStatus.STALE
    assert scheduler_status(NOW + timedelta(seconds=2), NOW, INTERVAL) is SchedulerStatus.OK, "another machine's clock"
