"""LESSONS 22: one canonical form of ids and usernames, whatever people and systems write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.channel import (
    MAX_CHANNEL_ID,
    ChannelRef,
    bare_id,
    canonical_username,
    marked_id,
    parse_ref,
)

pytestmark = pytest.mark.unit

bare_ids = st.integers(1, MAX_CHANNEL_ID)
usernames = st.from_regex(r"[a-z][a-z0-9]{3,14}_[a-z0-9]{1,15}", fullmatch=True).filter(lambda name: len(name) <= 32)
invites = st.from_regex(r"[A-Z][A-Za-z0-9_-]{15,21}", fullmatch=True)
refs = (
    st.builds(lambda value: ChannelRef(channel_id=value), bare_ids)
    | st.builds(lambda value: ChannelRef(username=value), usernames)
    | st.builds(lambda value: ChannelRef(invite=value), invites)
)


@given(bare_ids)
def test_lesson_22_ids_with_and_without_the_mark_are_one(channel_id: int) -> None:
    assert bare_id(channel_id) == channel_id
    assert bare_id(marked_id(channel_id)) == channel_id
    assert parse_ref(str(channel_id)) == parse_ref(str(marked_id(channel_id))) == ChannelRef(channel_id=channel_id)


def test_lesson_22_ids_end_where_telegram_says() -> None:
    assert bare_id(997_852_516_352) == bare_id(-1_997_852_516_352) == 997_852_516_352
    with pytest.raises(ValueError, match="not a channel's id"):
        bare_id(997_852_516_353)


@pytest.mark.parametrize("name", ["abcd", "a" * 32])
def test_lesson_22_usernames_have_4_to_32_letters(name: str) -> None:
    assert canonical_username(name) == name


def test_lesson_22_the_mark_is_minus_100_before_ten_digits() -> None:
    assert marked_id(1234567890) == -1001234567890
    assert bare_id(-1001234567890) == 1234567890
    assert bare_id(-1000000000001) == 1


@pytest.mark.parametrize("wrong", [0, -1, -1234567890, -(10**12), 1001234567890, MAX_CHANNEL_ID + 1, -(10**13)])
def test_lesson_22_other_numbers_are_not_channels(wrong: int) -> None:
    with pytest.raises(ValueError, match="not a channel's id"):
        bare_id(wrong)


@pytest.mark.parametrize("wrong", [0, -1, -1001234567890, MAX_CHANNEL_ID + 1])
def test_lesson_22_only_a_bare_id_can_be_marked(wrong: int) -> None:
    with pytest.raises(ValueError, match="not a bare channel id"):
        marked_id(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "Durov_News",
        "@Durov_News",
        "  @durov_news\n",
        "t.me/durov_news",
        "T.me/Durov_News/",
        "https://t.me/Durov_News",
        "http://t.me/durov_news/45",
        "https://t.me/durov_news/45?single&comment=3#top",
        "https://t.me/s/durov_news",
        "t.me/s/durov_news?before=100",
        "https://t.me/s/durov_news/45",
        "https://www.t.me/durov_news",
        "telegram.me/durov_news",
        "https://telegram.dog/durov_news",
        "https://durov_news.t.me/45",
        "https://t.me/@durov_news",
        "tg://resolve?domain=Durov_News&post=45",
        "TG://resolve?domain=durov_news",
    ],
)
def test_lesson_22_every_form_of_a_username_is_one(text: str) -> None:
    assert parse_ref(text) == ChannelRef(username="durov_news")


@pytest.mark.parametrize(
    "text",
    [
        "1234567890",
        "-1001234567890",
        "https://t.me/c/1234567890/45",
        "t.me/c/1234567890",
        "tg://privatepost?channel=1234567890&post=45",
    ],
)
def test_lesson_22_every_form_of_an_id_is_one(text: str) -> None:
    assert parse_ref(text) == ChannelRef(channel_id=1234567890)


@pytest.mark.parametrize(
    "text",
    [
        "https://t.me/+AbCdEfGhIjKlMnOp",
        "t.me/+AbCdEfGhIjKlMnOp",
        "https://t.me/joinchat/AbCdEfGhIjKlMnOp",
        "tg://join?invite=AbCdEfGhIjKlMnOp",
    ],
)
def test_lesson_22_an_invite_keeps_its_case(text: str) -> None:
    assert parse_ref(text) == ChannelRef(invite="AbCdEfGhIjKlMnOp")


@given(refs)
def test_lesson_22_what_is_printed_is_read_again(ref: ChannelRef) -> None:
    assert parse_ref(str(ref)) == ref


@given(usernames)
def test_lesson_22_a_username_is_canonical_once(name: str) -> None:
    assert canonical_username(f"@{name.upper()}") == canonical_username(name) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "two words",
        "@",
        "@ab",
        "abc",
        "1abcd",
        "_abcd",
        "abcd_",
        "ab__cd",
        "канал",
        "dur\u017fov",  # a long s, which some rules take for a Latin one
        "\u212aanal",  # the sign for kelvin, a k in lower case
        "a" * 33,
        "durov.news",
        "https://example.com/durov",
        "https://t.me",
        "https://t.me/",
        "https://t.me/c/",
        "https://t.me/c/abc/45",
        "https://t.me/s/",
        "https://t.me/+79991234567",
        "https://t.me/+short",
        "https://t.me/joinchat/",
        "https://t.me/addstickers/Animals",
        "https://t.me/share/url?url=x",
        "https://t.me/proxy?server=x",
        "https://t.me.evil.example/durov",
        "https://evil.example/t.me/durov",
        "ftp://t.me/durov",
        "javascript://t.me/durov",
        "tg://resolve",
        "tg://resolve?domain=",
        "tg://join",
        "tg://privatepost?channel=x",
        "tg://settings",
        "https://[t.me/durov",
    ],
)
def test_lesson_22_what_names_no_channel_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)(not name|not a channel).*(@name|Invalid)"):
        parse_ref(text)


@pytest.mark.parametrize("number", ["0", "-1234567890", "1001234567890", "-5"])
def test_lesson_22_numbers_that_are_no_channel_are_refused(number: str) -> None:
    with pytest.raises(ValueError, match="not a channel's id"):
        parse_ref(number)


@given(
    st.text(max_size=40) | st.text(max_size=20).map("https://t.me/".__add__) | st.text(max_size=20).map("tg://".__add__)
)
def test_g6_any_text_is_a_channel_or_a_value_error(text: str) -> None:
    try:
        ref = parse_ref(text)
    except ValueError:
        return
    assert parse_ref(str(ref)) == ref


def test_a_ref_has_exactly_one_name() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        ChannelRef()
    with pytest.raises(ValueError, match="exactly one"):
        ChannelRef(username="durov", channel_id=1)
