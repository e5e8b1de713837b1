"""Names that the dictionary does not know inflect; hashtags and emoji are kept and looked for as such."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from telegram_assistant.domain.query import Clause, Query, Term, Trouble, parse_query
from telegram_assistant.domain.results import Origin, Passage
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon, Part
from telegram_assistant.search.snippets import Marker, snippet

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon(Inflection())


def parsed(text: str) -> Query:
    return parse_query(text, now=NOW)


def required(*signs: str) -> tuple[Clause, ...]:
    return tuple(Clause((Term((sign,), exact=True),), required=True) for sign in signs)


@pytest.mark.parametrize(
    "forms",
    [
        "Маск Маска Маску Маском Маске",
        "Илон Илону Илоном Илоне",
        "Шольц Шольца Шольцу Шольцем Шольце",
        "Силуанов Силуанова Силуанову Силуановым Силуанове",
        "Токаев Токаева Токаеву Токаевым Токаеве",
        "Безос Безоса Безосу Безосом Безосе",
        "Милей Милея Милею Милеем",
        "Трамп Трампа Трампу Трампом Трампе",
        "Байден Байдена Байдену Байденом Байдене",
    ],
)
def test_all_forms_of_a_name_share_a_reading(lexicon: Lexicon, forms: str) -> None:
    name, *others = forms.split()
    asked = set(lexicon.term_readings(Term((name,)))[0])
    for form in others:
        said = lexicon.lexemes([Part(f"Потом сказали {form} вчера", "A")]).words
        assert any(f"'{one}':" in said for one in asked), form
        assert asked & set(lexicon.term_readings(Term((form,)))[0]), form


def test_a_common_word_is_no_name(lexicon: Lexicon) -> None:
    assert "маск" not in lexicon.readings("маску", "маску")
    words = lexicon.lexemes([Part("Надели маску. Маску сняли. Москве рады", "A")]).words
    assert "'маск':" not in words, "neither written small, nor at the start of a sentence"
    assert "'москв':" not in words


def test_hashtags_and_emoji_are_kept_beside_the_words(lexicon: Lexicon) -> None:
    forms = lexicon.lexemes([Part("🔥🔥 Рынок: #Крипта_Дня, C#x &#39; #1 👍🏽 🇷🇺", "A"), Part("#page 💥", "D")]).forms
    kept = {one for one in forms.split() if not one.startswith("'=") or not one[2].isalnum()}
    assert kept == {"'=🔥'", "'=#крипта_дня'", "'=👍'", "'=🇷🇺'"}


@pytest.mark.parametrize(
    "text, clauses, words",
    [
        ("#крипта", required("#крипта"), ""),
        ("🔥🔥🔥", required("🔥"), ""),
        ("has:photo 🔥 ❤️", required("🔥", "❤"), ""),
        ("🔥 OR #BTC", (Clause((Term(("#BTC",), exact=True),), required=True),), ""),
        ("🔥 пожар", (Clause((Term(("пожар",)),)),), "пожар"),
        ("+🔥 пожар", (*required("🔥"), Clause((Term(("пожар",)),))), "пожар"),
    ],
)
def test_signs_in_a_query(text: str, clauses: tuple[Clause, ...], words: str) -> None:
    query = parsed(text)
    assert (query.clauses, query.words, query.notes) == (clauses, words, ())


def test_signs_that_are_alternatives_or_left_out() -> None:
    either = parsed("🔥 OR 💥").clauses
    assert [[term.words[0] for term in clause.options] for clause in either] == [["🔥", "💥"]]
    assert parsed("нефть -#реклама -🔥").unwanted == (Term(("#реклама",), exact=True), Term(("🔥",), exact=True))
    assert [note.trouble for note in parsed("!!!").notes] == [Trouble.NO_WORDS]


def test_signs_and_names_are_marked_in_snippets(lexicon: Lexicon) -> None:
    text = "Цена: #Крипта растёт 🔥, сказали Маску"
    for query, marked in (("#крипта", "#Крипта"), ("🔥", "🔥"), ("Маск", "Маску"), ("#крипта крипта", "#Крипта")):
        found = snippet([Passage(Origin.TEXT, text)], Marker.for_query(parsed(query), lexicon))
        assert [found.text[start:end] for start, end in found.spans] == [marked], query
