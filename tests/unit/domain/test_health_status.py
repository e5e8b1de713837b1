"""SPEC 6.2, 7.3 and 8: health by the age of the last tick and by the outcome of ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.domain.health_status import (
    ChannelFailure,
    ParserStatus,
    SchedulerStatus,
    TickOutcome,
    is_healthy,
    parser_status,
    scheduler_status,
)

pytestmark = pytest.mark.unit

NOW = datetime(2025, 10, 28, 12, tzinfo=UTC)
INTERVAL = timedelta(seconds=300)


def tick(visited: int, *failed: int) -> TickOutcome:
    return TickOutcome(visited, tuple(ChannelFailure(channel, "timeout") for channel in failed))


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


def test_spec_7_3_all_channels_failing_in_two_ticks_is_red_although_it_ticks() -> None:
    outcomes = [tick(3), tick(3, 1, 2, 3), tick(3, 1, 2, 3)]
    assert parser_status(outcomes, active_channels=3) is ParserStatus.FAILING
    assert scheduler_status(NOW, NOW, INTERVAL) is SchedulerStatus.OK
    assert not is_healthy(SchedulerStatus.OK, ParserStatus.FAILING)


@pytest.mark.parametrize(
    "outcomes,status",
    [
        pytest.param([], "ok", id="nothing happened yet"),
        pytest.param([tick(3), tick(3)], "ok", id="all well"),
        pytest.param([tick(3, 1, 2, 3)], "degraded", id="one bad tick is not two"),
        pytest.param([tick(3), tick(3, 1, 2, 3)], "degraded", id="the one before was good"),
        pytest.param([tick(3, 1, 2, 3), tick(3, 1, 2)], "degraded", id="one channel recovered"),
        pytest.param([tick(3, 1, 2, 3), tick(3, 1, 2, 3), tick(3)], "degraded", id="the last was good"),
        pytest.param([tick(3, 1, 2, 3), tick(3, 1, 2, 3), tick(3), tick(3)], "ok", id="recovered"),
        pytest.param([tick(2, 1, 2), tick(0), tick(1, 3), tick(0)], "failing", id="idle ticks prove nothing"),
        pytest.param([tick(1, 7), tick(1, 7)], "degraded", id="one broken channel was all that was due"),
        pytest.param([tick(1, 7), tick(1, 8)], "failing", id="different channels, none succeeds"),
    ],
)
def test_spec_7_3_parser_status_by_outcome(outcomes: list[TickOutcome], status: str) -> None:
    assert parser_status(outcomes, active_channels=3) == status


def test_spec_7_3_the_only_channel_failing_is_everything_failing() -> None:
    assert parser_status([tick(1, 7), tick(1, 7)], active_channels=1) is ParserStatus.FAILING


@pytest.mark.parametrize(
    "scheduler,parser,healthy",
    [
        ("ok", "ok", True),
        ("ok", "degraded", True),
        ("ok", "failing", False),
        ("stale", "ok", False),
        ("down", "ok", False),
    ],
)
def test_spec_7_3_health_needs_ticks_and_outcome(scheduler: str, parser: str, *, healthy: bool) -> None:
    assert is_healthy(SchedulerStatus(scheduler), ParserStatus(parser)) is healthy


def test_a_tick_that_visited_nothing_did_not_fail() -> None:
    assert not tick(0).all_failed
    assert tick(2, 1, 2).all_failed
    assert not tick(2, 1).all_failed


def test_more_failures_than_visits_are_a_contradiction() -> None:
    with pytest.raises(ValueError, match="2 channels failed but only 1"):
        tick(1, 1, 2)
