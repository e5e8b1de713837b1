"""Snippets show why a post was found: pieces of text with places, never markup."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telegram_assistant.domain.query import parse_query
from telegram_assistant.domain.results import Origin, Passage, Snippet
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.snippets import LENGTH, Marker, snippet

pytestmark = pytest.mark.unit

LEXICON = Lexicon(Inflection())
LONG = "Начало текста ни про что. " * 40 + "Метеорологи обещают снег в Москве и сильный ветер. " + "Конец. " * 40


def cut(query: str, *texts: tuple[Origin, str]) -> Snippet:
    marker = Marker.for_query(parse_query(query, now=datetime(2026, 11, 1, tzinfo=UTC)), LEXICON)
    return snippet([Passage(origin, text) for origin, text in texts], marker)


def marked(found: Snippet) -> list[str]:
    return [found.text[start:end] for start, end in found.spans]


def test_words_are_marked_in_any_form() -> None:
    found = cut("погода москва", (Origin.TEXT, "Сказано: погоде в Москве, погоды нет, но погост есть."))
    assert marked(found) == ["погоде", "Москве", "погоды"]
    assert found.text == "Сказано: погоде в Москве, погоды нет, но погост есть."
    assert not found.cut_before
    assert not found.cut_after


def test_exact_forms_are_marked_as_written() -> None:
    assert marked(cut("=погоды", (Origin.TEXT, "Погоде и погоды"))) == ["погоды"]


def test_the_piece_with_the_most_of_the_words_is_shown() -> None:
    found = cut("снег ветер", (Origin.TEXT, LONG))
    assert marked(found) == ["снег", "ветер"]
    assert len(found.text) <= LENGTH
    assert found.cut_before
    assert found.cut_after
    assert not found.text.startswith(" ")


def test_the_text_of_a_picture_or_a_page_is_shown_if_the_words_are_there() -> None:
    found = cut("квитанция", (Origin.TEXT, "Смотрите сами"), (Origin.PICTURE, "Фото: квитанции на столе"))
    assert found.origin is Origin.PICTURE
    assert marked(found) == ["квитанции"]


def test_without_words_the_beginning_is_shown() -> None:
    found = cut("has:photo", (Origin.TEXT, LONG))
    assert LONG.startswith(found.text)
    assert found.spans == ()
    assert cut("нефть") == Snippet("")


def test_markup_stays_text() -> None:
    found = cut("alert", (Origin.TEXT, "<script>alert(1)</script> & <b>нефть</b>"))
    assert found.text == "<script>alert(1)</script> & <b>нефть</b>"
    assert marked(found) == ["alert"]


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=1_000), st.text(max_size=30))
def test_spans_are_always_inside(text: str, query: str) -> None:
    found = cut(query, (Origin.TEXT, text))
    assert found.text in text
    assert all(0 <= start < end <= len(found.text) for start, end in found.spans)
