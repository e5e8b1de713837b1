"""Pieces of messages: within the limit, well formed, and together the whole text."""

from __future__ import annotations

import re
from random import Random

import pytest

from telegram_assistant.bot.messenger import LONGEST, MOST_TAGS, plain, split_html, units

pytestmark = pytest.mark.unit


def test_what_fits_stays_whole() -> None:
    html = '<b>Hello</b> &amp; <a href="https://t.me/x">welcome</a>'
    assert split_html(html) == [html]
    assert split_html("") == split_html(" \n ") == split_html("<b></b>") == []


def test_cut_at_sentences_with_tags_closed_and_reopened() -> None:
    assert split_html("Hello <b>world. This is</b> a test. And &lt;more&gt; text", limit=20) == [
        "Hello <b>world.</b>",
        "<b>This is</b> a test.",
        "And &lt;more&gt; text",
    ]


def test_no_sentence_ends_inside_a_number_or_an_address() -> None:
    assert split_html("It is 3.14 and t.me.x here. Done", limit=28) == ["It is 3.14 and t.me.x here.", "Done"]


def test_a_word_without_an_end() -> None:
    pieces = split_html("x" * 10_000 + "&lt;" + "🦆" * 5_000)
    assert all(units(piece) <= LONGEST for piece in pieces)
    assert "".join(map(plain, pieces)) == "x" * 10_000 + "<" + "🦆" * 5_000


def test_emoji_count_twice() -> None:
    assert [len(piece) for piece in split_html("🦆" * 3_000)] == [LONGEST // 2, 3_000 - LONGEST // 2]


def test_not_more_tags_than_telegram_keeps() -> None:
    pieces = split_html("<b>a</b>. " * 500)
    assert all(len(re.findall("<b>", piece)) <= MOST_TAGS for piece in pieces)
    assert "".join(map(plain, pieces)).replace(" ", "") == "a." * 500


@pytest.mark.parametrize("seed", range(200))
def test_any_markup_in_any_length(seed: int) -> None:
    random = Random(seed)
    html = ""
    open_tags: list[str] = []
    for _ in range(random.randint(1, 120)):
        chance = random.random()
        if chance < 0.1 and len(open_tags) < 4:
            open_tags.append(random.choice("bia"))
            html += '<a href="x">' if open_tags[-1] == "a" else f"<{open_tags[-1]}>"
        elif chance < 0.2 and open_tags:
            html += f"</{open_tags.pop()}>"
        else:
            html += random.choice(["&amp;", "word", "x. ", "\n", "🦆" * 7, " ", "long" * random.randint(1, 9)])
    html += "".join(f"</{tag}>" for tag in reversed(open_tags))
    for limit in (10, 30, 80):
        pieces = split_html(html, limit=limit)
        assert all(0 < units(piece) <= limit for piece in pieces)
        assert all(_is_well_formed(piece) for piece in pieces)
        assert "".join("".join(plain(piece).split()) for piece in pieces) == "".join(plain(html).split())


def _is_well_formed(html: str) -> bool:
    open_tags: list[str] = []
    for end, name in re.findall(r"<(/?)([a-z]+)[^>]*>", html):
        if not end:
            open_tags.append(name)
        elif not open_tags or open_tags.pop() != name:
            return False
    return not open_tags
