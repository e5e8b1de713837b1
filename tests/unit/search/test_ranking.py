"""Which candidates come first, and which belong together."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.language.documents import Candidate
from telegram_assistant.search.ranking import Ranked, fold_stories, rank, scale_of, score_words

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 1, tzinfo=UTC)
RARE, COMMON = 8.0, 2.0
RANKS = st.one_of(st.just(0.0), st.floats(0.01, 1))
TEXT = re.findall(r"\w+", "суд выдал ордер на арест премьера и бывшего министра обороны за военные преступления")


def candidate(number: int, *ranks: float, length: int = 50, **fields: object) -> Candidate:
    values: dict[str, object] = {"channel_id": number, "posted_at": NOW, "album_id": None, "story_id": None} | fields
    return Candidate(post_id=UUID(int=number), length=length, ranks=ranks, **values)  # type: ignore[arg-type]  # by name


def order(ranked: list[Ranked]) -> list[int]:
    return [one.candidate.post_id.int for one in ranked]


def test_rare_words_many_words_and_short_posts_come_first() -> None:
    both, rare, common = candidate(1, 0.6, 0.6), candidate(2, 0.6, 0.0), candidate(3, 0.0, 0.6)
    long, often = candidate(4, 0.6, 0.0, length=2_000), candidate(5, 0.8, 0.0)
    ranked = rank([common, long, rare, often, both], [RARE, COMMON], {})
    assert order(ranked) == [1, 5, 2, 4, 3]
    assert all(one.by_words and not one.by_meaning for one in ranked)


def test_a_share_of_the_query_by_what_its_words_are_worth() -> None:
    assert score_words(candidate(1, 0.6, 0.0), [RARE, COMMON]).share == 0.8
    assert score_words(candidate(1), []).score == 0


def test_words_met_by_chance_do_not_disturb_meaning() -> None:
    """A question in another language: only a number of it stands in a post."""
    worths = [RARE, RARE, RARE, RARE, COMMON]
    by_chance, meant, near = candidate(1, 0, 0, 0, 0, 0.9), candidate(2, *[0.0] * 5), candidate(3, *[0.0] * 5)
    ranked = rank([by_chance, near, meant], worths, {meant.post_id: 0.5, near.post_id: 0.3})
    assert order(ranked) == [2, 1], "what is farthest, and has no word, is not shown"
    assert ranked[0].by_meaning
    assert not ranked[0].by_words


def test_trusted_words_outweigh_meaning_and_meaning_decides_between_equals() -> None:
    exact, alike, only_near = candidate(1, 0.6, 0.6), candidate(2, 0.6, 0.6), candidate(3, 0.0, 0.0)
    ranked = rank(
        [only_near, exact, alike], [RARE, COMMON], {only_near.post_id: 0.9, alike.post_id: 0.7, UUID(int=9): 0}
    )
    assert order(ranked) == [2, 1, 3]


def test_the_scale_of_a_model_does_not_matter() -> None:
    found = [candidate(number, number / 10, 0.3) for number in range(1, 6)]
    near = {one.post_id: one.post_id.int / 7 for one in found[:3]}
    stretched = {post_id: 0.8 + score / 100 for post_id, score in near.items()}
    assert order(rank(found, [RARE, COMMON], near)) == order(rank(found, [RARE, COMMON], stretched))


def test_by_the_scale_of_the_first_page_nothing_moves_when_posts_come_and_go() -> None:
    found = [candidate(number, number / 10, 0.3) for number in range(1, 6)]
    near = {one.post_id: one.post_id.int / 7 for one in found}
    scale = scale_of(found, [RARE, COMMON], near)
    first = {one.candidate.post_id: one.score for one in rank(found, [RARE, COMMON], near)}
    better, nearer = candidate(9, 1.0, 1.0, length=1), candidate(10, 0.0, 0.0)
    later = rank([better, nearer, *found[:-1]], [COMMON, RARE], near | {nearer.post_id: 0.99}, scale)
    scores = {one.candidate.post_id: one.score for one in later}
    assert [scores[one.post_id] for one in found[:-1]] == [first[one.post_id] for one in found[:-1]]


@given(st.lists(st.tuples(RANKS, RANKS), max_size=30), st.lists(st.floats(-1, 1), max_size=30))
def test_candidates_are_ranked_once_and_those_with_a_word_always(
    ranks: list[tuple[float, float]], near: list[float]
) -> None:
    found = [candidate(number, *pair) for number, pair in enumerate(ranks)]
    meaning = {UUID(int=number): score for number, score in enumerate(near) if number < len(found)}
    ranked = order(rank(found, [RARE, COMMON], meaning))
    assert len(ranked) == len(set(ranked))
    assert {number for number, pair in enumerate(ranks) if any(pair)} <= set(ranked)


def ranked(*found: Candidate) -> list[Ranked]:
    return [Ranked(one, -number, by_words=True, by_meaning=False) for number, one in enumerate(found)]


def test_an_album_is_one_story() -> None:
    album = UUID(int=77)
    stories = fold_stories(ranked(candidate(1, album_id=album), candidate(2), candidate(3, album_id=album)))
    assert [[one.post_id.int for one in story.candidates] for story in stories] == [[1, 3], [2]]


def test_posts_that_tell_the_same_are_one_story() -> None:
    found = ranked(
        candidate(1, story_id=UUID(int=70)),
        candidate(2, story_id=UUID(int=71)),
        candidate(3, story_id=UUID(int=70), posted_at=NOW - timedelta(days=1)),
        candidate(4),
        candidate(5),
    )
    assert [[one.post_id.int for one in story.candidates] for story in fold_stories(found)] == [[1, 3], [2], [4], [5]]
