"""SPEC 2.5, LESSONS 20: albums are whole, across pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.post import AlbumKind, MediaKind, album_id, album_is_settled, album_kind, around

pytestmark = pytest.mark.unit

NOW = datetime(2025, 10, 28, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


def settled(ids: list[int], newest: int, *covered: tuple[int, int], posted: datetime = LONG_AGO) -> bool:
    return album_is_settled(ids, newest, Coverage.of_spans(*covered), last_posted_at=posted, now=NOW)


def test_an_album_has_the_same_id_whoever_saw_it() -> None:
    assert album_id(1, 7) == UUID("5c2ad1a6-3088-59e6-8c21-c1acaf28bcd6")
    assert len({album_id(1, 7), album_id(1, 8), album_id(2, 7)}) == 3


@pytest.mark.parametrize(
    "kinds,expected",
    [
        (["photo", "photo"], AlbumKind.PHOTO),
        (["video"], AlbumKind.VIDEO),
        (["video", "animation", "video_note"], AlbumKind.VIDEO),
        (["document", "document"], AlbumKind.DOCUMENT),
        (["document", "audio", "voice"], AlbumKind.DOCUMENT),
        (["photo", "video"], AlbumKind.MIXED),
        (["photo", "other"], AlbumKind.MIXED),
        ([], AlbumKind.MIXED),
    ],
)
def test_spec_8_album_kind(kinds: list[str], expected: AlbumKind) -> None:
    assert album_kind(MediaKind(kind) for kind in kinds) is expected


def test_around_is_where_nine_others_may_be() -> None:
    assert list(around([20])) == list(range(11, 30))
    assert around([20, 22]) == range(11, 32)
    assert around([3]) == range(1, 13)


@given(st.integers(1, 1000), st.integers(1, 10), st.data())
def test_lesson_20_a_whole_album_lies_around_any_part_of_it(first: int, size: int, data: st.DataObject) -> None:
    ids = range(first, first + size)
    part = data.draw(st.sets(st.sampled_from(ids), min_size=1))
    assert set(ids) <= set(around(part))
    assert len(around(part)) <= 100  # what one request by ids can ask for


def test_lesson_20_ten_items_are_all_there_can_be() -> None:
    assert settled(list(range(50, 60)), 59, posted=NOW)


def test_lesson_20_settled_when_all_neighbours_are_read() -> None:
    assert settled([50, 51], 100, (41, 61), posted=NOW)


@pytest.mark.parametrize(
    "covered",
    [(41, 52), (41, 60), (50, 61), (42, 61)],
    ids=["page ended", "one id short", "first visit", "one id before"],
)
def test_lesson_20_not_settled_beside_ids_that_nobody_read(covered: tuple[int, int]) -> None:
    assert not settled([50, 51], 100, covered)


def test_lesson_20_not_settled_with_a_hole_between_its_items() -> None:
    assert not settled([50, 53], 100, (1, 51), (53, 101))


@pytest.mark.parametrize("age,expected", [(0, False), (9.999, False), (10, True), (3600, True), (-60, False)])
def test_lesson_20_at_the_newest_end_time_tells(age: float, *, expected: bool) -> None:
    assert settled([50, 51], 51, (1, 52), posted=NOW - timedelta(seconds=age)) is expected
    assert settled([50, 51], 59, (1, 60), posted=NOW - timedelta(seconds=age)) is expected


def test_lesson_20_beyond_the_newest_end_time_does_not_matter() -> None:
    assert settled([50, 51], 60, (1, 61), posted=NOW)


def test_lesson_20_age_does_not_excuse_what_is_unread() -> None:
    assert not settled([50, 51], 55, (1, 52))


def test_the_first_messages_of_a_channel_have_nothing_before_them() -> None:
    assert settled([1, 2], 100, (1, 101), posted=NOW)


def test_an_item_newer_than_the_newest_known_is_the_newest() -> None:
    assert not settled([50, 51], 40, (1, 52), posted=NOW)
    assert settled([50, 51], 40, (1, 52))


def test_lesson_10_naive_times_are_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        settled([50], 50, (1, 51), posted=NOW.replace(tzinfo=None))
