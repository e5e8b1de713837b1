"""A post's identity (G2), its address, and what counts as an edit of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.post import (
    Counters,
    Forward,
    Media,
    MediaKind,
    Poll,
    Post,
    ReplyTo,
    Service,
    content_hash,
    post_id,
    post_url,
)
from telegram_assistant.domain.text import Entity, EntityKind, Link

pytestmark = pytest.mark.unit

NOW = datetime(2025, 10, 28, 12, tzinfo=UTC)
POST = Post(
    channel_id=1234567890,
    message_id=45,
    posted_at=NOW,
    text="Привет, мир",
    entities=(Entity(EntityKind.BOLD, 0, 6), Entity(EntityKind.TEXT_URL, 8, 3, "https://a.example")),
    links=(Link("https://a.example", "мир", hidden=True),),
    media=(Media(kind=MediaKind.PHOTO, file_id="777", width=800, height=600, reference=b"one"),),
    poll=Poll(question="?", answers=("yes", "no")),
)

ids = st.integers(1, 2**40)
message_ids = st.integers(1, 2**31 - 1)
texts = st.text(max_size=20)
entities = st.builds(
    Entity, st.sampled_from(EntityKind), st.integers(0, 20), st.integers(1, 20), st.none() | texts, st.none() | texts
)
media = st.builds(
    Media,
    kind=st.sampled_from(MediaKind),
    file_id=st.none() | texts,
    mime=st.none() | texts,
    size=st.none() | st.integers(0, 2**40),
    width=st.none() | st.integers(0, 9999),
    name=st.none() | texts,
)
posts = st.builds(
    Post,
    channel_id=ids,
    message_id=message_ids,
    posted_at=st.just(NOW),
    text=texts,
    entities=st.lists(entities, max_size=3).map(tuple),
    media=st.lists(media, max_size=3).map(tuple),
)


def test_g2_the_id_is_fixed_for_ever() -> None:
    assert post_id(1234567890, 45) == POST.id == UUID("b4b62752-c35e-5421-b005-d5642184e21c")


@given(ids, message_ids, ids, message_ids)
def test_g2_the_same_post_has_one_id_and_another_another(
    channel: int, message: int, channel_2: int, message_2: int
) -> None:
    same = (channel, message) == (channel_2, message_2)
    assert (post_id(channel, message) == post_id(channel_2, message_2)) == same


def test_g2_digits_do_not_run_together() -> None:
    assert post_id(12, 345) != post_id(123, 45)


@pytest.mark.parametrize("channel,message", [(0, 1), (-1001234567890, 1), (1, 0), (1, -5)])
def test_lesson_22_only_canonical_ids_make_a_post(channel: int, message: int) -> None:
    for make in (
        lambda: post_id(channel, message),
        lambda: post_url(None, channel, message),
        lambda: replace(POST, channel_id=channel, message_id=message),
    ):
        with pytest.raises(ValueError, match="positive"):
            make()


def test_post_url_is_public_by_username_and_for_members_by_id() -> None:
    assert post_url("durov", 1234567890, 45) == "https://t.me/durov/45"
    assert post_url(None, 1234567890, 45) == "https://t.me/c/1234567890/45"


def test_the_content_hash_is_fixed_for_ever() -> None:
    assert content_hash(POST) == "eae3eb969f276855bacb366da6826d06b6236e386844667e5a640566dc130990"


@given(posts, st.none() | st.builds(Poll, question=texts, answers=st.lists(texts, max_size=3).map(tuple)))
def test_the_content_hash_is_made_of_json(post: Post, poll: Poll | None) -> None:
    """It is put together by hand, which must not show."""
    content = [
        1,
        post.text,
        [[entity.kind, entity.offset, entity.length, entity.url, entity.detail] for entity in post.entities],
        [
            [item.kind, item.file_id]
            if item.file_id is not None
            else [item.kind, None, item.mime, item.size, item.width, item.height, item.duration, item.name]
            for item in post.media
        ],
        None if poll is None else [poll.question, *poll.answers],
    ]
    encoded = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    assert replace(post, poll=poll).content_hash == hashlib.sha256(encoded).hexdigest()


@given(posts)
def test_g2_what_is_not_content_is_not_an_edit(post: Post) -> None:
    other = replace(
        post,
        counters=Counters.counted(views=5, forwards=1, replies=2, reactions={"👍": 3}),
        pinned=True,
        edited_at=NOW + timedelta(days=1),
        posted_at=NOW + timedelta(days=1),
        author="somebody",
        forward=Forward(channel_id=5),
        reply_to=ReplyTo(message_id=3),
        grouped_id=9,
        service=Service("pin"),
        channel_id=post.channel_id + 1,
        media=tuple(replace(item, reference=b"refreshed") for item in post.media),
    )
    assert content_hash(other) == content_hash(post)


@given(posts, posts)
def test_other_content_has_another_hash(a: Post, b: Post) -> None:
    identities = [[(m.kind, m.file_id) if m.file_id is not None else m for m in post.media] for post in (a, b)]
    same = (a.text, a.entities, identities[0]) == (b.text, b.entities, identities[1])
    assert (content_hash(a) == content_hash(b)) == same


@pytest.mark.parametrize(
    "edited",
    [
        replace(POST, text="Привет, мир!"),
        replace(POST, entities=POST.entities[1:]),
        replace(POST, entities=(*POST.entities[:1], Entity(EntityKind.TEXT_URL, 8, 3, "https://b.example"))),
        replace(POST, media=()),
        replace(POST, media=(Media(kind=MediaKind.PHOTO, file_id="778"),)),
        replace(POST, media=POST.media * 2),
        replace(POST, poll=Poll(question="?", answers=("yes", "no", "maybe"))),
        replace(POST, poll=None),
    ],
)
def test_g5_a_change_of_content_is_an_edit(edited: Post) -> None:
    assert content_hash(edited) != content_hash(POST)


def test_votes_and_the_end_of_a_poll_are_not_an_edit() -> None:
    assert POST.poll is not None
    later = replace(POST, poll=replace(POST.poll, voters=100, closed=True))
    assert content_hash(later) == content_hash(POST)


def test_media_without_a_stable_id_is_told_apart_by_what_is_known_of_it() -> None:
    first, second = (replace(POST, media=(Media(kind=MediaKind.DOCUMENT, size=size),)) for size in (1, 2))
    assert content_hash(first) != content_hash(second)


def test_text_does_not_run_over_into_what_follows() -> None:
    assert content_hash(replace(POST, text='a",[]')) != content_hash(replace(POST, text="a"))


def test_a_lone_surrogate_does_not_break_the_hash() -> None:
    assert len(content_hash(replace(POST, text="\ud83d"))) == 64


def test_a_reference_is_no_part_of_a_media_value_nor_of_its_repr() -> None:
    one, two = (Media(kind=MediaKind.PHOTO, file_id="1", reference=secret) for secret in (b"first", b"second"))
    assert one == two
    assert "first" not in repr(one)


def test_equal_reactions_are_equal_counters_in_any_order() -> None:
    assert Counters.counted(reactions={"🔥": 2, "👍": 1}).reactions == (("👍", 1), ("🔥", 2))
    assert Counters.counted(reactions={"👍": 1, "🔥": 2}) == Counters.counted(reactions={"🔥": 2, "👍": 1})


def test_lesson_10_naive_times_make_no_post() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        replace(POST, posted_at=NOW.replace(tzinfo=None))
    with pytest.raises(ValueError, match="no time zone"):
        replace(POST, edited_at=NOW.replace(tzinfo=None))


def test_a_post_is_a_value() -> None:
    assert replace(POST) == POST
    assert hash(replace(POST)) == hash(POST)
    with pytest.raises(FrozenInstanceError):
        POST.text = "other"  # type: ignore[misc]  # that it is refused is the test


def test_what_is_derived() -> None:
    assert POST.urls == ("https://a.example",)
    assert POST.has_media
    assert not replace(POST, media=()).has_media
