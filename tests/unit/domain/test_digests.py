"""Digests: what may be asked for, which stories come first, and what counts as a correction."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.digests import (
    INTEREST,
    LONGEST_TOPIC,
    MATCH,
    MOST_CHANNELS,
    NOVELTY,
    REACH,
    TOLD,
    Candidate,
    Change,
    Cited,
    Content,
    PostNow,
    Way,
    Wish,
    corrections,
    place,
    tidy,
)

pytestmark = pytest.mark.unit

SINCE, UNTIL = datetime(2026, 11, 14, tzinfo=UTC), datetime(2026, 11, 15, tzinfo=UTC)
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        key=st.uuids(),
        channel_id=st.integers(1, 4),
        first_at=st.datetimes(datetime(2026, 11, 13), datetime(2026, 11, 16), timezones=st.just(UTC)),  # noqa: DTZ001 - as hypothesis wants it
        match=st.floats(-1, 2),
        labels=st.lists(st.sampled_from(["sport", "Economy", "ставка"]), max_size=2).map(tuple),
        reach=st.floats(0, 10**6),
        channels=st.integers(0, 30),
    ),
    max_size=15,
    unique_by=lambda one: one.key,
)


@given(CANDIDATES, st.integers(1, 20), st.randoms())
def test_places_are_never_by_chance(candidates: list[Candidate], most: int, rng: Random) -> None:
    interests = {"ECONOMY": 0.7, "sport": 9.0}
    placed = place(candidates, most=most, since=SINCE, until=UNTIL, interests=interests)
    assert sorted(one.candidate.key for one in placed) == sorted(one.key for one in candidates)
    shuffled = candidates[:]
    rng.shuffle(shuffled)
    assert place(shuffled, most=most, since=SINCE, until=UNTIL, interests=interests) == placed
    for one in placed:
        assert all(0 <= part <= 1 for part in (one.match, one.interest, one.told, one.reach, one.novelty))
        assert 0 <= one.score <= 1 + 1e-9
    assert pytest.approx(1) == MATCH + INTEREST + TOLD + REACH + NOVELTY
    if placed:
        assert placed[0].score == max(one.score for one in placed)


def story(number: int, **values: object) -> Candidate:
    known = {"key": UUID(int=number), "channel_id": number, "first_at": UNTIL - timedelta(hours=1)}
    return Candidate(**{**known, **values})  # type: ignore[arg-type]  # of any kind


@pytest.mark.parametrize(
    "better",
    [{"match": 1.0}, {"labels": ("sport",)}, {"first_at": UNTIL}, {"channels": 5}, {"reach": 3.0}],
    ids=lambda one: next(iter(one)),
)
def test_each_reason_moves_a_story_up(better: dict[str, object]) -> None:
    plain = story(1, match=0.5, first_at=UNTIL - timedelta(hours=10))
    other = replace(plain, key=UUID(int=2), channel_id=2, **better)  # type: ignore[arg-type]  # of any kind
    placed = place([plain, other], most=2, since=SINCE, until=UNTIL, interests={"sport": 1.0})
    assert placed[0].candidate is other


def test_one_loud_channel_does_not_fill_a_digest() -> None:
    loud = [story(number, channel_id=1, reach=8.0) for number in range(10)]
    quiet = [story(number, channel_id=number) for number in range(20, 23)]
    first = place(loud + quiet, most=5, since=SINCE, until=UNTIL)[:5]
    assert len({one.candidate.channel_id for one in first}) == 4
    rest = place(loud + quiet, most=1, since=SINCE, until=UNTIL)[1:]
    assert [one.score for one in rest] == sorted((one.score for one in rest), reverse=True), "only among the first"


def test_what_many_channels_tell_comes_before_what_one_of_them_says_loudly() -> None:
    told = [story(number, channel_id=1, channels=4) for number in range(4)]
    loud = [story(number, channel_id=number, reach=8.0, first_at=UNTIL) for number in range(10, 20)]
    first = place(loud + told, most=5, since=SINCE, until=UNTIL)[:4]
    assert {one.candidate.channels for one in first} == {4}, "they belong to no channel, so none of them is repeated"


def test_a_wish_is_tidied() -> None:
    wish = tidy(
        Wish(name="  My \n news\0", topics=(" a  b ", "a b", "", "\0"), channels=(2, 1, 2), ways=(Way.EMAIL, Way.WEB))
    )
    assert (wish.name, wish.topics, wish.channels, wish.ways) == ("My news", ("a b",), (2, 1), (Way.WEB, Way.EMAIL))


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"name": " "}, "name: give it"),
        ({"topics": tuple(f"topic {number}" for number in range(500))}, "100 at most, you gave 500"),
        ({"topics": ("x" * (LONGEST_TOPIC + 1),)}, "topics: each has"),
        ({"channels": tuple(range(MOST_CHANNELS + 1))}, "leave the list empty"),
        ({"most": 0}, "max_stories: a number from 1 to 50"),
    ],
)
def test_a_wrong_wish_is_refused_in_words(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tidy(replace(Wish(name="x"), **wrong))  # type: ignore[arg-type]  # of any kind


def test_corrections_are_what_changed() -> None:
    def cited(number: int) -> Cited:
        return Cited(
            post_id=UUID(int=number),
            channel_id=1,
            channel="c",
            url="u",
            posted_at=SINCE,
            version=1,
            content_hash="same",
        )

    def now(number: int, **values: object) -> PostNow:
        known = {"version": 1, "content_hash": "same", "text": "t", "edited_at": None, "deleted_at": None}
        return PostNow(post_id=UUID(int=number), **{**known, **values})  # type: ignore[arg-type]  # of any kind

    content = Content(cited=tuple(cited(number) for number in range(5)))
    posts = [
        now(0),
        now(1, content_hash="other", edited_at=UNTIL, text="new"),
        now(2, deleted_at=UNTIL),
        now(4, version=2),
    ]
    found = corrections(content, {post.post_id: post for post in posts})
    assert [(one.source, one.change, one.text) for one in found] == [
        (1, Change.EDITED, "new"),
        (2, Change.DELETED, ""),
        (3, Change.GONE, ""),
        (4, Change.EDITED, "t"),
    ]
