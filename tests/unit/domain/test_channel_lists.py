"""Lists of channels: pasted, from a feed reader, from a spreadsheet; and back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.channel_lists import (
    LONGEST_LIST,
    MOST_ENTRIES,
    Entry,
    as_csv,
    as_opml,
    read_list,
)


@dataclass(frozen=True)
class Channel:
    """As far as lists need it."""

    id: int
    username: str | None
    title: str
    group: str = ""

    @property
    def url(self) -> str | None:
        return f"https://t.me/{self.username}" if self.username else None


def references(text: str) -> list[str | None]:
    return [entry.reference for entry in read_list(text)]


def test_names_and_links_are_found_among_other_words() -> None:
    pasted = """
    1. @Durov - the founder
    2) https://t.me/s/telegram/42, t.me/bbcrussian; tg://resolve?domain=meduzalive
    • rian_ru
    -1001006503122
    (https://t.me/durov) again
    """
    assert references(pasted) == ["@durov", "@telegram", "@bbcrussian", "@meduzalive", "@rian_ru", "-1001006503122"]


def test_what_names_no_channel_is_told_with_its_line() -> None:
    good, bad, folder = read_list("@durov\nsome words of mine\nhttps://t.me/addlist/abcdef")
    assert good == Entry("@durov", reference="@durov")
    assert bad.text == "some words of mine"
    assert bad.reference is None
    assert "does not name one channel" in (bad.error or "")
    assert "addlist" in (folder.error or "")


def test_a_spreadsheet_is_read_by_its_columns() -> None:
    table = 'Title;Link;Members\n"News; and more";https://t.me/durov;12\nNothing;;3\n"@other_one";t.me/telegram;4\n'
    assert references(table) == ["@durov", "@telegram"]


def test_the_outlines_of_a_feed_reader_are_read_and_its_folders_are_not() -> None:
    opml = """<?xml version="1.0"?><opml version="2.0"><body><outline text="News">
      <outline text="Durov" xmlUrl="https://example.org/feed" htmlUrl="https://t.me/durov"/>
      <outline text="@telegram"/><outline text="A blog" xmlUrl="https://example.org/rss"/>
    </outline></body></opml>"""
    durov, telegram, blog = read_list(opml)
    assert (durov.reference, telegram.reference, blog.reference) == ("@durov", "@telegram", None)
    assert (durov.group, telegram.group, blog.group) == ("News",) * 3


@pytest.mark.parametrize(
    "broken, said",
    [
        ("<opml><body>", "broken"),
        ('<!DOCTYPE x [<!ENTITY a "aaaa">]><opml>&a;</opml>', "entities"),
        ("@durov " * LONGEST_LIST, "characters"),
        ("\n".join(f"@name{number}" for number in range(MOST_ENTRIES + 1)), "more than"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_whole(broken: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_list(broken)


TITLES = st.text(st.characters(codec="utf-8"), max_size=20)
CHANNELS = st.lists(
    st.builds(
        Channel,
        id=st.integers(1, 10**10),
        username=st.none() | st.from_regex(r"[a-z][a-z0-9]{4,20}", fullmatch=True).filter(lambda name: name != "share"),
        title=TITLES,
        group=st.sampled_from(["", "news", "Спорт & <co>"]),
    ),
    max_size=5,
    unique_by=(lambda one: one.id, lambda one: one.username or one.id),
)


@given(CHANNELS)
def test_what_was_written_is_read_again(channels: list[Channel]) -> None:
    known = {f"@{one.username}" if one.username else str(-(10**12) - one.id): one.group for one in channels}
    for written in (as_opml(channels, "my channels"), as_csv(channels)):
        assert {entry.reference: entry.group for entry in read_list(written)} == known


def test_a_title_is_no_formula() -> None:
    assert "'=1+1" in as_csv([Channel(1, "durov", "=1+1")])


@given(st.text(max_size=200))
def test_any_text_is_a_list_or_a_clear_refusal(text: str) -> None:
    entries: list[Entry] = []
    with suppress(ValueError):
        entries = read_list(text)
    assert all(entry.reference or entry.error for entry in entries)
