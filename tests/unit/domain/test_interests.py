"""What interests weigh, and what fits them; pure functions."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.domain.interests import (
    DECAY,
    LONGEST_TOPIC,
    Candidate,
    Interest,
    clean_topic,
    fading,
    fit,
    score,
    topics_of_query,
    weigh,
    weights,
)

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 13, 12, tzinfo=UTC)


def interest(
    topic: str, *, queries: float = 0, views: float = 0, days: float = 0, chosen: float | None = None
) -> Interest:
    return Interest(topic=topic, queries=queries, views=views, chosen=chosen, last_at=NOW - timedelta(days=days))


def test_the_weight_is_that_of_the_contract() -> None:
    """SPEC 8: 0.4 queries + 0.3 views + 0.3 decay over 30 days, normalised."""
    found = weights([interest("space", queries=10, views=4), interest("sport", queries=5, views=1)], NOW)
    assert found == {"space": 1.0, "sport": pytest.approx(0.4 * 0.5 + 0.3 * 0.25 + 0.3)}


def test_what_was_long_ago_fades() -> None:
    assert fading(NOW, NOW) == 1
    assert fading(NOW - DECAY, NOW) == pytest.approx(1 / math.e)
    found = weights([interest("new", views=1), interest("old", views=1, days=30)], NOW)
    assert found["old"] == pytest.approx((0.3 + 0.3) / math.e / 0.6)
    assert "old" not in weights([interest("new", views=1), interest("old", views=1, days=150)], NOW)


def test_a_clock_that_goes_backwards_makes_nothing_grow() -> None:
    assert fading(NOW + timedelta(days=400), NOW) == 1


def test_a_search_weighs_more_than_a_view() -> None:
    found = weigh([interest("read", views=1), interest("asked", queries=1)], NOW)
    assert [one.interest.topic for one in found] == ["asked", "read"]


def test_what_somebody_chose_stands() -> None:
    found = weights(
        [
            interest("read", views=100),
            interest("never", queries=100, chosen=0),
            interest("little", chosen=0.3, days=400),
        ],
        NOW,
    )
    assert found == {"read": 1.0, "little": 0.3}


def test_no_interests_are_no_trouble() -> None:
    assert weigh([], NOW) == []
    assert weights([interest("only chosen", chosen=0.6)], NOW) == {"only chosen": 0.6}


@pytest.mark.parametrize(
    "written,kept",
    [("  Космос\n и  ракеты ", "космос и ракеты"), ("", ""), ("   ", ""), ("я" * 500, "я" * LONGEST_TOPIC)],
)
def test_topics_are_kept_tidy(written: str, kept: str) -> None:
    assert clean_topic(written) == kept


def test_a_short_query_is_a_topic_itself() -> None:
    assert topics_of_query(["лунная", "база"], ["space", "science", "economy"]) == ("лунная база", "space", "science")
    assert topics_of_query(["кто", "первым", "полетел", "на", "луну"], ["space"]) == ("space",)
    assert topics_of_query([], []) == ()


def test_a_post_that_meets_more_interests_fits_better() -> None:
    likes = {"space": 0.8, "science": 0.5}
    assert fit({"space"}, likes) == pytest.approx(0.8)
    assert fit({"space", "science", "luna"}, likes) == pytest.approx(0.9)
    assert fit({"sport"}, likes) == 0
    assert fit({"a", "b"}, {"a": 1.0, "b": 1.0}) < 1


def test_news_come_first() -> None:
    likes = {"space": 1.0, "sport": 0.4}
    fresh, old = Candidate(frozenset({"space"}), NOW), Candidate(frozenset({"space"}), NOW - timedelta(days=2))
    assert score(fresh, likes, NOW) == pytest.approx(4 * score(old, likes, NOW))
    assert score(fresh, likes, NOW) > score(Candidate(frozenset({"sport"}), NOW), likes, NOW)
