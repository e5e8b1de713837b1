"""Bursts from counts: surprise, baselines, independence, events; pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest

from telegram_assistant.domain.trends import (
    BASELINE_DAYS,
    DAY,
    LEAST_MENTIONS,
    PAUSE,
    Background,
    Burst,
    Kind,
    Known,
    Series,
    Spread,
    Subject,
    Telling,
    Trend,
    clumping,
    confirm,
    expected,
    gather,
    judge,
    level,
    tail,
    told_before,
    voices,
)

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 13, tzinfo=UTC)
EVENT = Subject(Kind.ENTITY, "Атлантида")
EVEN = (100,) * (BASELINE_DAYS + 1)
# Ordinary subjects are told of by themselves: the variance is the mean.
CALM = Background(EVEN, 500, {1: Spread(2000.0, 2000), 2: Spread(2000.0, 2000), 6: Spread(5000.0, 5000)})


def series(now: int, *past: int, subject: Subject = EVENT) -> Series:
    return Series(subject, (now, *past, *(0,) * (BASELINE_DAYS - len(past))))


def telling(number: int, channel: int, *, hours: float = 0, source: int | None = None) -> Telling:
    at = NOW - DAY + timedelta(hours=hours or number)
    return Telling(UUID(int=number), channel, at, UUID(int=source if source is not None else number))


def burst(subject: Subject = EVENT, score: float = 3.0) -> Burst:
    return Burst(subject, score, 7, 0.1, series(7).counts)


def by_hand(count: int, mean: float, clumps: float) -> float:
    """One minus the chances of fewer, which loses its digits only far out."""
    size, share = mean / (clumps - 1), (clumps - 1) / clumps
    chances = [
        math.exp(math.lgamma(k + size) - math.lgamma(size) - math.lgamma(k + 1)) * (1 - share) ** size * share**k
        for k in range(count)
    ]
    return 1.0 - math.fsum(chances)


@pytest.mark.parametrize("count,mean,clumps", [(1, 0.5, 2), (4, 0.3, 1.5), (30, 20, 3), (5, 5, 1.2), (0, 3, 2)])
def test_the_tail_is_that_of_a_negative_binomial(count: int, mean: float, clumps: float) -> None:
    assert tail(count, mean, clumps) == pytest.approx(by_hand(count, mean, clumps), rel=1e-6)


def test_the_tail_has_digits_where_one_minus_the_rest_has_none() -> None:
    assert 0 < tail(80, 0.05, 1.2) < 1e-40
    assert tail(81, 0.05, 1.2) < tail(80, 0.05, 1.2)
    assert tail(5000, 4000, 2.0) < 1e-10


def test_samples_of_that_distribution_are_as_rare_as_it_says() -> None:
    rng = Random(3)
    mean, clumps = 2.0, 3.0
    drawn = []
    for _ in range(20_000):
        rate = rng.gammavariate(mean / (clumps - 1), clumps - 1)
        drawn.append(_poisson(rng, rate))
    for count in (1, 3, 6, 10):
        assert sum(one >= count for one in drawn) / len(drawn) == pytest.approx(tail(count, mean, clumps), abs=0.01)


def _poisson(rng: Random, rate: float) -> int:
    left, count = math.exp(-rate), 0
    product = rng.random()
    while product > left:
        product *= rng.random()
        count += 1
    return count


def test_a_new_subject_of_several_channels_is_a_burst() -> None:
    found = judge(series(7), CALM)
    assert found is not None
    assert found.score > 3
    assert found.lift > 50
    assert found.expected == pytest.approx(1 / BASELINE_DAYS)


def test_what_comes_as_often_as_ever_is_none() -> None:
    assert judge(series(7, *(6, 7, 8) * 9), CALM) is None
    assert judge(series(12, *(7,) * BASELINE_DAYS), CALM) is None  # not even twice as often


def test_few_mentions_are_never_a_burst() -> None:
    assert judge(series(LEAST_MENTIONS - 1), CALM) is None


def test_more_posts_on_a_busy_day_are_expected() -> None:
    """Twice as many posts: twice as many mentions of everything."""
    counts = (20, *(5,) * BASELINE_DAYS)
    busy = Background((400, *EVEN[1:]), 500, CALM.spread)
    assert expected(counts, EVEN) == pytest.approx(5, rel=0.02)
    assert expected(counts, busy.totals) == pytest.approx(20, rel=0.02)
    assert judge(Series(EVENT, counts), CALM) is not None
    assert judge(Series(EVENT, counts), busy) is None


def test_what_comes_every_week_is_expected_on_its_day_only() -> None:
    weekly = [9 if back % 7 == 0 else 0 for back in range(1, BASELINE_DAYS + 1)]
    assert expected((9, *weekly), EVEN) > 7
    assert judge(series(9, *weekly), CALM) is None
    shifted = [9 if back % 7 == 3 else 0 for back in range(1, BASELINE_DAYS + 1)]
    assert expected((9, *shifted), EVEN) < 2


def test_where_stories_are_told_by_many_one_must_be_told_by_more() -> None:
    clumped = Background(EVEN, 500, {level: Spread(8000.0, 2000) for level in range(1, 7)})
    assert judge(series(6), CALM) is not None
    assert judge(series(6), clumped) is None
    assert judge(series(25), clumped) is not None


def test_many_subjects_are_many_chances_for_a_false_alarm() -> None:
    few, many = judge(series(8), CALM), judge(series(8), Background(EVEN, 50_000, CALM.spread))
    assert few is not None
    assert many is not None
    assert few.score - many.score == pytest.approx(2)


def test_one_burst_of_the_past_does_not_hide_the_next() -> None:
    """Its best days are left out of a subject's own clumping; those of every third day are not."""
    once = (9, *(0,) * 12, 9, *(0,) * 15)
    often = (9, *(9, 0, 0) * 9, 0)
    assert clumping(once, CALM) < 1.5 < clumping(often, CALM)
    assert judge(Series(EVENT, once), CALM) is not None
    assert judge(Series(EVENT, often), CALM) is None


@pytest.mark.parametrize("days", [0, 1])
def test_without_a_past_nothing_is_said(days: int) -> None:
    short = Background((100, *(100,) * days, *(0,) * (BASELINE_DAYS - days)), 500, {})
    assert judge(series(40), short) is None


def test_a_short_past_makes_careful() -> None:
    two = Background((100, 100, 100, *(0,) * (BASELINE_DAYS - 2)), 500, {1: Spread(2000.0, 2000)})
    assert judge(series(5), two) is None
    assert judge(series(20), two) is not None


def test_the_past_reaches_back_to_its_first_day() -> None:
    away = Background((9, 9, 0, 0, 9, *(0,) * (BASELINE_DAYS - 4)), 500, {})
    assert (away.days, away.reach) == (2, 4)
    assert Background((0,) * (BASELINE_DAYS + 1), 0, {}).reach == 0


def test_an_empty_window_is_no_trouble() -> None:
    assert judge(series(0), Background((0, *EVEN[1:]), 0, {})) is None
    assert judge(series(9), Background((0,) * (BASELINE_DAYS + 1), 0, {})) is None


def test_levels_are_powers_of_two() -> None:
    assert [level(count) for count in (0, 1, 2, 3, 4, 7, 8)] == [0, 1, 2, 2, 3, 3, 4]


def test_copies_and_repetitions_count_little() -> None:
    own_words = [telling(number, channel=number) for number in range(1, 6)]
    assert (voices(own_words).mentions, voices(own_words).channels) == (5, 5)
    copies = [telling(number, channel=number, source=1) for number in range(1, 6)]
    assert (voices(copies).mentions, voices(copies).channels) == (1, 1)
    spam = [telling(number, channel=1) for number in range(1, 21)]
    assert (voices(spam).mentions, voices(spam).channels) == (2, 1)
    assert voices([]).channels == 0


def test_a_copy_counts_for_the_channel_that_said_it_first() -> None:
    told = [telling(2, channel=20, hours=5, source=1), telling(1, channel=10, hours=1)]
    assert voices(told) == voices([telling(1, channel=10)])


def test_a_burst_of_copies_is_not_confirmed() -> None:
    rising = judge(series(9), CALM)
    assert rising is not None
    assert confirm(rising, [telling(number, number) for number in range(1, 8)], CALM) is not None
    assert confirm(rising, [telling(number, number, source=1) for number in range(1, 10)], CALM) is None
    assert confirm(rising, [telling(number, number % 2) for number in range(1, 10)], CALM) is None


def test_bursts_that_share_posts_are_one_event() -> None:
    told = [telling(number, number) for number in range(1, 8)]
    phrase, other = Subject(Kind.PHRASE, "остров"), Subject(Kind.ENTITY, "Лемурия")
    elsewhere = [telling(number, number) for number in range(50, 56)]
    wider = [*told[:4], telling(8, 8), telling(9, 9)]
    found = gather([(burst(phrase, 2.5), wider), (burst(score=4.0), told), (burst(other, 3.0), elsewhere)])
    assert [trend.subjects for trend in found] == [(EVENT, phrase), (other,)]
    assert [telling.channel_id for telling in found[0].tellings] == list(range(1, 10))
    assert found[0].channels == 9


def test_a_topic_gives_its_name_to_an_event_and_not_its_posts() -> None:
    told = [telling(number, number) for number in range(1, 8)]
    topic = Subject(Kind.TOPIC, "incidents")
    [found] = gather([(burst(score=4.0), told), (burst(topic, 3.0), [*told, telling(30, 30), telling(31, 31)])])
    assert found.subjects == (EVENT, topic)
    assert len(found.tellings) == 7


def trend(*numbers: int, subject: Subject = EVENT) -> Trend:
    [found] = gather([(burst(subject, 9.0), [telling(number, number) for number in numbers])])
    return found


def known(numbers: Sequence[int], last_at: datetime, subject: Subject = EVENT) -> Known:
    return Known(UUID(int=99), frozenset((subject,)), frozenset(UUID(int=number) for number in numbers), last_at)


def test_an_event_goes_on_until_it_pauses() -> None:
    start = NOW - DAY
    assert told_before(trend(1, 2, 3), [known((50,), start - PAUSE)], start) is not None
    assert told_before(trend(1, 2, 3), [known((50,), start - PAUSE - timedelta(seconds=1))], start) is None


def test_an_event_is_known_by_its_posts_too() -> None:
    other = Subject(Kind.PHRASE, "остров")
    assert told_before(trend(1, 2, 3), [known((1, 2, 60, 61), NOW, other)], NOW - DAY) is not None
    many = known((1, *range(60, 80)), NOW, other)  # a digest of everything is in both
    assert told_before(trend(1, 2, 3, 4, 5), [many], NOW - DAY) is None


def test_a_topic_alone_does_not_make_two_events_one() -> None:
    topic = Subject(Kind.TOPIC, "sport")
    [found] = gather([(burst(), [telling(1, 1), telling(2, 2)]), (burst(topic, 2.0), [telling(1, 1), telling(2, 2)])])
    assert told_before(found, [known((50,), NOW, topic)], NOW - DAY) is None
    assert told_before(trend(1, 2, subject=topic), [known((50,), NOW, topic)], NOW - DAY) is not None


def test_a_topic_alone_is_no_trend_unless_it_rises_very_much() -> None:
    told = [telling(number, number) for number in range(1, 8)]
    economy, finance = Subject(Kind.TOPIC, "economy"), Subject(Kind.TOPIC, "finance")
    assert gather([(burst(economy, 5.0), told), (burst(finance, 4.0), told)]) == []
    assert len(gather([(burst(economy, 9.0), told)])) == 1
    assert len(gather([(burst(economy, 5.0), told), (burst(score=4.0), told)])) == 1, "a name rises with it"


def test_a_name_that_rises_alone_has_to_rise_more() -> None:
    """Chance lifts one name at a time; the same name as a tag is no second one."""
    told = [telling(number, number) for number in range(1, 8)]
    twin, other = Subject(Kind.PHRASE, EVENT.key.casefold()), Subject(Kind.PHRASE, "остров")
    assert gather([(burst(score=2.5), told)]) == []
    assert gather([(burst(score=2.5), told), (burst(twin, 2.4), told)]) == []
    assert len(gather([(burst(score=2.5), told), (burst(other, 2.1), told)])) == 1
    assert len(gather([(burst(score=3.5), told)])) == 1
