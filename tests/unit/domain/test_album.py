"""SPEC 2.5, LESSONS 20: albums are whole, across pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.album import Album, AlbumKind, album_id, album_is_settled, album_kind, around, gather
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.post import Media, MediaKind, Post

pytestmark = pytest.mark.unit

NOW = datetime(2025, 10, 28, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


def item(message_id: int, grouped_id: int | None = 7, kind: MediaKind = MediaKind.PHOTO, text: str = "") -> Post:
    return Post(
        channel_id=1,
        message_id=message_id,
        posted_at=NOW,
        text=text,
        media=(Media(kind=kind),),
        grouped_id=grouped_id,
    )


def settled(ids: list[int], newest: int, *covered: tuple[int, int], posted: datetime = LONG_AGO) -> bool:
    return album_is_settled(ids, newest, Coverage.of(*covered), last_posted_at=posted, now=NOW)


@given(
    st.lists(st.integers(1, 40), unique=True, max_size=20),
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
    st.integers(0, 20),
)
def test_lesson_20_albums_are_the_same_however_pages_cut_them(order: list[int], groups: list[int], cut: int) -> None:
    posts = [item(message_id, groups[message_id - 1] or None) for message_id in order]
    at_once = gather(posts)
    in_pages = gather(posts[cut:], gather(posts[:cut]))
    assert in_pages == at_once
    grouped = {post.message_id for post in posts if post.grouped_id is not None}
    assert {message_id for album in at_once.values() for message_id in album.message_ids} == grouped
    assert all(list(album.message_ids) == sorted(set(album.message_ids)) for album in at_once.values())


def test_an_item_seen_again_is_not_doubled_and_the_later_one_counts() -> None:
    albums = gather([item(5, text="edited")], gather([item(5, text="first"), item(6)]))
    assert albums[7].message_ids == (5, 6)
    assert albums[7].caption == "edited"


def test_spec_8_what_an_album_says_of_itself() -> None:
    album = gather([item(6, kind=MediaKind.VIDEO), item(5, text="caption"), item(9, None)])[7]
    assert (album.message_ids, album.kind, album.caption) == ((5, 6), "mixed", "caption")
    assert album.id == album_id(1, 7) == UUID("5c2ad1a6-3088-59e6-8c21-c1acaf28bcd6")
    assert album.last_posted_at == NOW


def test_an_album_is_as_young_as_its_youngest_item() -> None:
    album = gather([replace(item(5), posted_at=LONG_AGO), item(6), replace(item(7), posted_at=LONG_AGO)])[7]
    assert album.last_posted_at == NOW


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


def test_an_album_is_of_one_channel_and_one_group() -> None:
    with pytest.raises(ValueError, match="another one"):
        Album(1, 7, (item(5), item(6, 8)))
    with pytest.raises(ValueError, match="another one"):
        gather([item(5), replace(item(6), channel_id=2)])
    with pytest.raises(ValueError, match="not in order"):
        Album(1, 7, (item(6), item(5)))
    with pytest.raises(ValueError, match="doubled"):
        Album(1, 7, (item(5), item(5)))
    with pytest.raises(ValueError, match="no items"):
        Album(1, 7, ())


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
