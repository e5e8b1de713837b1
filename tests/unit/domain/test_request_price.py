"""What a request is worth: all channels together use the budget, and what was used too much is given back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from telegram_assistant.domain.polling import (
    FIRST_PRICE,
    MOST_OWED,
    MOST_SAVED,
    Allowance,
    fair_price,
    first_price,
    new_appetite,
)

pytestmark = pytest.mark.unit

HOUR = 3600.0
DAY = 24 * HOUR

hungers = st.lists(st.floats(1e-6, 10), min_size=1, max_size=40)


def looks(appetites: Sequence[float], price: float, bound: float = HOUR) -> float:
    """An hour, of all channels."""
    return sum(max(appetite / math.sqrt(price), 1.0 / bound) for appetite in appetites) * HOUR


@given(hungers, st.floats(1.01, 500))
def test_at_the_fair_price_the_channels_use_the_budget(appetites: list[float], share: float) -> None:
    budget = share * len(appetites)  # an hour; with one per bound for each there is something to choose
    assert looks(appetites, fair_price(appetites, budget)) == pytest.approx(budget, rel=1e-6)


@given(hungers, st.floats(0.01, 0.99))
def test_a_budget_below_the_bound_lets_all_wait_for_the_bound(appetites: list[float], share: float) -> None:
    price = fair_price(appetites, share * len(appetites))
    assert all(appetite / math.sqrt(price) <= (1 + 1e-9) / HOUR for appetite in appetites)


@given(hungers, st.floats(0.1, 100), st.floats(1.001, 10))
def test_a_larger_budget_makes_requests_cheaper(appetites: list[float], budget: float, more: float) -> None:
    assert fair_price(appetites, budget * more) <= fair_price(appetites, budget) * (1 + 1e-9)


def test_who_is_bounded_leaves_the_rest_to_the_others() -> None:
    """A hundred channels that are as good as dead use a hundred requests; the busy one gets the other 200."""
    appetites = [1.0, *[1e-9] * 100]
    price = fair_price(appetites, 300)
    assert HOUR / math.sqrt(price) == pytest.approx(200)


def test_no_channels_have_the_first_price() -> None:
    assert fair_price([], 10) == FIRST_PRICE


@pytest.mark.parametrize("budget,bound", [(0, 3600), (-1, 3600), (10, 0), (float("nan"), 3600)])
def test_without_a_budget_there_is_no_price(budget: float, bound: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        fair_price([1.0], budget, bound)


@pytest.mark.parametrize("fixed", [1.0, 60.0, 300.0, 3600.0])
def test_new_channels_alone_are_looked_at_each_fixed_interval(fixed: float) -> None:
    appetites = [new_appetite(fixed)] * 7
    assert looks(appetites, first_price(fixed), bound=10 * fixed) == pytest.approx(7 * HOUR / fixed)
    assert fair_price(appetites, 7 * HOUR / fixed, bound=10 * fixed) == pytest.approx(first_price(fixed))


@given(st.floats(-MOST_OWED, MOST_SAVED), st.floats(0, 100 * DAY), st.integers(0, 10**7), st.floats(0.1, 1e5))
def test_what_is_saved_or_owed_has_limits(days: float, seconds: float, requests: int, budget: float) -> None:
    assert -MOST_OWED <= Allowance(days).after(seconds, requests, budget).days <= MOST_SAVED


@given(st.floats(-1, 0.4), st.floats(60, DAY), st.floats(1, 1e5))
def test_who_uses_just_the_budget_neither_saves_nor_owes(days: float, seconds: float, budget: float) -> None:
    requests = round(seconds / HOUR * budget)
    after = Allowance(days).after(seconds, requests, budget)
    assert after.days == pytest.approx(days, abs=1 / budget)


@given(st.floats(-1.9, 0.4), st.floats(-1.9, 0.4))
def test_the_more_is_left_the_cheaper_it_gets(one: float, other: float) -> None:
    assume(one < other)
    assert Allowance(one).price(5.0) >= Allowance(other).price(5.0)
    assert Allowance().price(5.0) == 5.0


@pytest.mark.parametrize("wrong", [0.7, 1.0, 4.0])
def test_a_wrong_estimate_is_steered_out(wrong: float) -> None:
    """Channels that are in truth hungrier or less hungry than we believe still use the budget, within days."""
    believed, true, budget = [0.01] * 10, [0.01 * wrong] * 10, 120.0
    allowance, fair, used = Allowance(), fair_price(believed, budget), 0.0
    for hour in range(24 * 10):
        made = looks(true, allowance.price(fair))
        allowance = allowance.after(HOUR, round(made), budget)
        used += made if hour >= 24 * 3 else 0.0
    assert used == pytest.approx(budget * 24 * 7, rel=0.1)
