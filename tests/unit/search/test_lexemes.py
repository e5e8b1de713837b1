"""Words as the full-text index keeps them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telegram_assistant.domain.query import Clause, Term
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import GAP, LONGEST_WORD, Lexicon, Part, pieces, quoted, readable, split

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon(Inflection())


def places(vector: str) -> dict[str, str]:
    """What stands where in a vector's text."""
    return {one.partition(":")[0].strip("'"): one.partition(":")[2] for one in vector.split()}


def test_words_are_folded_and_parted() -> None:
    assert list(pieces("Ёлка, бизнес-центр и Ростов-на-Дону; don't 12,5 C++")) == (
        ["елка", "бизнес", "центр", "и", "ростов", "на", "дону", "don't", "12", "5", "c"]
    )


def test_scripts_without_spaces_are_kept_sign_by_sign() -> None:
    assert split("北京市") == ["北", "京", "市"]


def test_of_an_address_the_site_is_kept() -> None:
    assert list(pieces(readable("читать https://naked-science.ru/article/a1b2?x=1 дальше"))) == (
        ["читать", "naked", "science", "ru", "дальше"]
    )


def test_a_word_is_kept_under_each_of_its_dictionary_forms(lexicon: Lexicon) -> None:
    assert {"стать", "сталь"} <= set(lexicon.lemmas("стали"))
    assert set(lexicon.lemmas("погоды")) == {"погода"}
    assert lexicon.lemmas("cities") == lexicon.lemmas("city")


def test_vectors_have_weights_places_and_gaps(lexicon: Lexicon) -> None:
    lexemes = lexicon.lexemes([Part("Погода и погоды", "A"), Part("в Москве", "C")])
    words, forms = places(lexemes.words), places(lexemes.forms)
    assert words["погода"] == "1A,3A"
    assert words["москва"] == f"{3 + GAP + 2}C"
    assert (forms["=погода"], forms["=погоды"]) == ("1", "3")
    assert lexemes.length == 5


def test_a_clause_is_looked_for_in_any_form_or_as_written(lexicon: Lexicon) -> None:
    loose = lexicon.wanted(Clause((Term(("погоду",)),)))
    assert (loose.words, loose.forms, loose.phrase) == ("'погода'", "", False)
    exact = lexicon.wanted(Clause((Term(("погоду",), exact=True),)))
    assert (exact.words, exact.forms) == ("", "'=погоду'")
    assert exact.lemmas == ((("погода",),),)
    phrase = lexicon.wanted(Clause((Term(("прогноз", "погоды")), Term(("бизнес-центр",)))))
    assert phrase.words == "('прогноз' <-> 'погода' | 'бизнес' <-> 'центр')"
    assert phrase.phrase


def test_long_words_are_cut_alike_everywhere(lexicon: Lexicon) -> None:
    word = "a" * 5_000
    wanted = lexicon.wanted(Clause((Term((word,), exact=True),)))
    assert wanted.forms == f"'={'a' * LONGEST_WORD}'"
    assert lexicon.lexemes([Part(word, "A")]).forms.startswith(wanted.forms)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert quoted("a'b\\c") == r"'a''b\\c'"


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=200))
def test_any_text_has_lexemes(text: str) -> None:
    lexemes = Lexicon(Inflection()).lexemes([Part(text.encode("utf-8", "ignore").decode(), "A")])
    assert (lexemes.length == 0) == (lexemes.words == "")
