"""What a reader cannot see is not kept."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.crawl.extract import clean_line, clean_page

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text,clean",
    [
        ("a\0b\x07c\x1bd\x9fe", "abcde"),
        ("in\u202evoice\u202c \u2066x\u2069", "invoice x"),
        ("zero\u200bwidth\ufeff \u2060join", "zerowidth join"),
        ("hidden\U000e0049\U000e0067\U000e006e", "hidden"),
        ("soft\u00adhyphen", "softhyphen"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("\u0645\u06cc\u200c\u062e 👩\u200d🔬", "\u0645\u06cc\u200c\u062e 👩\u200d🔬"),
        ("  a  \t b \r\n\r\n\r\n\r\n c\u2028d ", "a b\n\nc\nd"),
    ],
)
def test_a_page_is_cleaned(text: str, clean: str) -> None:
    assert clean_page(text, 100) == clean


def test_lengths_are_limited() -> None:
    assert clean_page("слово " * 1000, 11) == "слово слово"
    assert clean_line("two\nwords\n\nand more", 9) == "two words"


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_nothing_unseen_is_left(text: str) -> None:
    clean = clean_page(text, 10_000)
    clean.encode()
    bad = [character for character in clean if unicodedata.category(character) == "Cc" and character != "\n"]
    assert bad == []
    assert not set(clean) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
    assert clean_page(clean, 10_000) == clean
