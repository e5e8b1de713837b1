"""Rules of the budgets: days, who pays, what is believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.budgets import (
    Claim,
    Short,
    Standing,
    believed,
    day_of,
    estimated,
    hour_of,
    next_day,
    payers_in_turn,
    share,
    shortage,
)

pytestmark = pytest.mark.unit

MOSCOW = timezone(timedelta(hours=3))


def test_the_day_is_that_of_utc() -> None:
    after_midnight_in_moscow = datetime(2026, 1, 6, 1, 30, tzinfo=MOSCOW)
    assert day_of(after_midnight_in_moscow) == datetime(2026, 1, 5, tzinfo=UTC)
    assert hour_of(after_midnight_in_moscow) == datetime(2026, 1, 5, 22, tzinfo=UTC)
    assert next_day(after_midnight_in_moscow) == datetime(2026, 1, 6, tzinfo=UTC)


@given(st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis wants naive bounds
def test_the_next_day_is_the_first_moment_of_another(now: datetime) -> None:
    coming = next_day(now)
    assert timedelta() < coming - now <= timedelta(days=1)
    assert day_of(coming) != day_of(now) == day_of(coming - timedelta(microseconds=1))


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        day_of(datetime(2026, 1, 5))  # noqa: DTZ001 - the point of this test


@pytest.mark.parametrize(
    "standing,short",
    [
        (Standing(), None),
        (Standing(spent=90), None),
        (Standing(spent=91), Short.SPENT),
        (Standing(spent=50, reserved=41, running=1), Short.BUSY),
        (Standing(reserved=20, running=2), Short.BUSY),
    ],
)
def test_a_claim_is_met_or_short(standing: Standing, short: Short | None) -> None:
    claim = Claim(owner="t", kind="vision", period=datetime(2026, 1, 5, tzinfo=UTC), limit=100, needs=10, at_once=2)
    assert shortage(claim, standing) is short


def test_what_has_no_limit_is_never_short() -> None:
    claim = Claim(owner="t", kind="tag", period=datetime(2026, 1, 5, tzinfo=UTC))
    assert shortage(claim, Standing(spent=10**12, reserved=10**12, running=99)) is None


def test_the_payer_with_the_most_left_is_asked_first() -> None:
    one, two, three = (UUID(int=number) for number in (1, 2, 3))
    assert payers_in_turn({one, two, three}, {str(one): 500, str(three): 20}) == [two, three, one]


@pytest.mark.parametrize("limit,tenants,part", [(None, 3, None), (100, 0, None), (100, 1, None), (100, 3, 33)])
def test_each_tenant_has_its_share(limit: int | None, tenants: int, part: int | None) -> None:
    assert share(limit, tenants) == part


@pytest.mark.parametrize("reported", [None, 0, -5, -(10**15), "12", 3.5, {}, []])
def test_n18_a_figure_that_is_none_is_not_believed(reported: object) -> None:
    assert believed(reported, 300) == estimated(300) == 100
    assert believed(reported, 300, more=1_000) == 1_100


@given(st.integers(), st.integers(0, 100_000))
def test_n18_no_figure_makes_a_call_free_or_boundless(reported: int, characters: int) -> None:
    charged = believed(reported, characters)
    assert estimated(characters) // 4 <= charged <= 4 * estimated(characters)


def test_a_figure_that_can_be_true_is_believed() -> None:
    assert believed(80, 300) == 80
    assert believed(900, 30, most=1_000) == 900, "an answer with hidden reasoning"
    assert believed(10**9, 30, most=1_000) == 1_000
