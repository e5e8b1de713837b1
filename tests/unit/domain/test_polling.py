"""When to look next: bounded, sooner for who posts more or matters more, and explained."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.polling import (
    LEAST,
    PollingRules,
    Reason,
    appetite,
    explain,
    first_price,
    next_visit,
    observe,
    weight_of,
)
from telegram_assistant.domain.rhythm import Rhythm
from telegram_assistant.domain.silence import MOSCOW

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 14, 12, tzinfo=UTC)  # a Wednesday, 15:00 in Moscow
PRICE = 5.0
RULES = PollingRules()

histories = st.lists(st.integers(1, 60 * 24 * 60), max_size=80)  # minutes before now
prices = st.floats(1e-4, 1e5)
priorities = st.integers(-60, 60)


def known(minutes: list[int], now: datetime = NOW) -> Rhythm:
    return observe(None, [now - timedelta(minutes=ago) for ago in minutes], now)


def poisson(a_day: float, *, days: int = 30, seed: int = 3, until: datetime = NOW) -> Rhythm:
    """A channel that posts by pure chance, as it is known at `until`."""
    rng, moment, posts = Random(seed), until - timedelta(days=days), []
    since = moment
    while (moment := moment + timedelta(days=rng.expovariate(a_day))) < until:
        posts.append(moment)
    return observe(None, posts, until, since=since)


def wait(rhythm: Rhythm, now: datetime = NOW, price: float = PRICE, weight: float = 1.0) -> float:
    return (next_visit(rhythm, now, price, weight=weight) - now).total_seconds()


@given(histories, prices, priorities, st.integers(0, 400))
def test_never_later_than_the_bound_and_never_at_once(
    minutes: list[int], price: float, priority: int, hours: int
) -> None:
    later = NOW + timedelta(hours=hours)
    seconds = wait(known(minutes), later, price, weight_of(priority))
    assert LEAST - 1e-3 <= seconds <= RULES.bound + 1e-3


@given(histories, prices, st.floats(1.0, 100))
def test_the_dearer_a_request_the_later_the_look(minutes: list[int], price: float, factor: float) -> None:
    rhythm = known(minutes)
    assert wait(rhythm, price=price) <= wait(rhythm, price=price * factor) + 1e-3


@given(histories, prices, priorities, st.integers(0, 60))
def test_the_more_important_the_sooner_the_look(minutes: list[int], price: float, priority: int, more: int) -> None:
    rhythm = known(minutes)
    usual, above = weight_of(priority), weight_of(priority + more)
    assert wait(rhythm, price=price, weight=above) <= wait(rhythm, price=price, weight=usual) + 1e-3


@pytest.mark.parametrize("fixed", [1.0, 60.0, 300.0, 900.0])
@pytest.mark.parametrize("price", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("priority", [0, 10])
def test_a_new_channel_is_looked_at_after_the_fixed_interval_whatever_the_price(
    fixed: float, price: float, priority: int
) -> None:
    rules = PollingRules(fixed=fixed, bound=3600)
    scaled = price * first_price(fixed)
    at = next_visit(observe(None, [], NOW), NOW, scaled, weight=weight_of(priority), rules=rules)
    assert (at - NOW).total_seconds() == pytest.approx(fixed, rel=1e-3)


def test_looks_go_with_the_root_of_the_rate() -> None:
    often, seldom = wait(poisson(400)), wait(poisson(25))
    assert seldom / often == pytest.approx(math.sqrt(400 / 25), rel=0.35)


def test_priority_counts_by_its_root_too() -> None:
    rhythm = poisson(50)
    assert weight_of(0) == 1
    assert weight_of(10) == 4
    assert wait(rhythm) / wait(rhythm, weight=weight_of(10)) == pytest.approx(2, rel=0.1)
    assert weight_of(10**9) == weight_of(50)
    assert weight_of(-(10**9)) == weight_of(-50)


def at_nine(now: datetime, zone: ZoneInfo = MOSCOW) -> Rhythm:
    """Ten posts between nine and ten, local time, each day of four weeks."""
    morning = now.astimezone(zone).replace(hour=9, minute=0, second=0, microsecond=0)
    posts = [
        morning - timedelta(days=day) + timedelta(minutes=6 * number, seconds=7 * day)
        for day in range(28, 0, -1)
        for number in range(10)
    ]
    return observe(None, posts, now, zone=zone)


def test_it_comes_before_the_usual_hour_and_not_after_it() -> None:
    today = NOW.astimezone(MOSCOW).replace(hour=9, minute=0)
    rhythm = at_nine(today)
    before = wait(rhythm, today - timedelta(minutes=30))
    assert before < 45 * 60, "it is there when the hour has begun"
    assert wait(rhythm, today) < 20 * 60
    assert wait(rhythm, today + timedelta(hours=8)) == pytest.approx(RULES.bound), "nothing comes in the evening"


def test_habits_follow_the_clock_of_the_channel_into_summer_time() -> None:
    """Clocks in Berlin went forward on 29 March 2026: nine there is an hour earlier in UTC from then on."""
    berlin = ZoneInfo("Europe/Berlin")
    rhythm = at_nine(datetime(2026, 3, 28, 12, tzinfo=berlin), berlin)
    nine = datetime(2026, 3, 31, 9, tzinfo=berlin)
    assert nine.astimezone(UTC).hour == 7
    there = next_visit(rhythm, nine, PRICE, zone=berlin) - nine
    in_utc = next_visit(rhythm, nine, PRICE, zone=UTC) - nine
    assert there < in_utc


def test_after_a_post_of_a_channel_that_posts_in_bursts_it_looks_sooner() -> None:
    starts = [NOW - timedelta(hours=5 * number, minutes=number % 50) for number in range(1, 150)]
    posts = [start + timedelta(seconds=80 * number) for start in starts for number in range(4)]
    rhythm = observe(None, posts, NOW)
    started = observe(rhythm, [NOW - timedelta(seconds=20)], NOW)
    assert wait(started) < 0.7 * wait(rhythm)


def test_posts_of_one_moment_and_of_the_future_do_not_count() -> None:
    album = [NOW - timedelta(minutes=5)] * 10
    once = observe(None, album[:1], NOW, since=NOW - timedelta(days=1))
    assert once.posts == 1
    assert observe(None, album, NOW, since=NOW - timedelta(days=1)) == once
    assert observe(once, [NOW + timedelta(hours=3)], NOW) == once


def test_naive_times_are_refused() -> None:
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(ValueError, match="no time zone"):
        observe(None, [naive], NOW)
    with pytest.raises(ValueError, match="no time zone"):
        next_visit(poisson(10), naive, PRICE)


@pytest.mark.parametrize("price,weight", [(0, 1), (-1, 1), (1, 0), (float("nan"), 1)])
def test_a_price_and_a_weight_are_positive(price: float, weight: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        next_visit(poisson(10), NOW, price, weight=weight)


@pytest.mark.parametrize("a_day", [5.0, 60.0, 600.0])
def test_the_appetite_says_how_often_it_will_be_looked_at(a_day: float) -> None:
    """Of a channel without habits, whose looks are all alike."""
    rhythm = poisson(a_day, days=60)
    promised = appetite(rhythm, NOW, PRICE) / math.sqrt(PRICE)
    assert 1 / wait(rhythm) == pytest.approx(max(promised, 1 / RULES.bound), rel=0.4)


@given(histories, prices, priorities)
def test_an_explanation_is_of_the_same_decision(minutes: list[int], price: float, priority: int) -> None:
    rhythm, weight = known(minutes), weight_of(priority)
    explanation = explain(rhythm, NOW, price, weight=weight)
    assert explanation.at == next_visit(rhythm, NOW, price, weight=weight)
    assert all(sentence.endswith(".") for sentence in explanation.sentences())


def test_an_explanation_of_a_new_channel() -> None:
    explanation = explain(observe(None, [], NOW), NOW, PRICE)
    assert explanation.reason is Reason.NEW
    said, unknown = explanation.sentences()
    assert said.startswith("Looked at 15:00:00; the next look is 5 min later, at 15:05:00 MSK: ")
    assert said.endswith(": too little is known of it, so about every 5 min.")
    assert unknown == "No post of it is known yet."


def test_an_explanation_of_a_quiet_channel() -> None:
    explanation = explain(poisson(0.03), NOW, PRICE)
    assert explanation.reason is Reason.BOUND
    assert "no channel waits longer than 60 min" in explanation.sentences()[0]


def test_an_explanation_of_habits() -> None:
    posts = [NOW - timedelta(days=day, minutes=30 * number) for day in range(20) for number in range(12)]
    explanation = explain(observe(None, posts, NOW), NOW, PRICE, weight=weight_of(5), zone=ZoneInfo("Asia/Tokyo"))
    said = " ".join(explanation.sentences())
    assert explanation.reason is Reason.PRICE
    assert explanation.minutes == (0, 30)
    for part in ("21:00:00", "JST", "posts a day", "Wednesday after 21:00", "likes the minutes :00, :30"):
        assert part in said
    assert "of its posts come in the first 5 s of a minute" in said
    assert "count 2 times because of its priority" in said


def test_by_its_own_plans_a_channel_is_looked_at_again_and_again() -> None:
    """A quiet one over a day: each look within the bound of the one before."""
    rhythm, looks = poisson(2), [NOW]
    while looks[-1] < NOW + timedelta(days=1):
        looks.append(next_visit(rhythm, looks[-1], PRICE))
    assert all(timedelta(0) < later - one <= timedelta(seconds=RULES.bound + 1) for one, later in pairwise(looks))
