"""English words in Russian, and what that does to a query and to the rank of posts."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from telegram_assistant.domain.query import parse_query
from telegram_assistant.language.documents import Candidate
from telegram_assistant.language.inflection import Inflection, fold
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.plan import Counts, make_plan
from telegram_assistant.language.translation import FILE, MOST_WORDS, Translations
from telegram_assistant.search.planning import translated
from telegram_assistant.search.ranking import rank, scale_of

pytestmark = pytest.mark.unit
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEXICON = Lexicon(Inflection())
TRANSLATIONS = Translations()


@pytest.mark.parametrize(
    "word, meant",
    [("war", "война"), ("Taxes", "налог"), ("governments", "правительство"), ("Japan", "япония"), ("coffee", "кофе")],
)
def test_common_words_in_any_form_have_their_translation(word: str, meant: str) -> None:
    assert meant in TRANSLATIONS.of(word)


@pytest.mark.parametrize("word", ["война", "xqzwv", "2024", "covid-19", ""])
def test_what_is_no_english_word_has_none(word: str) -> None:
    assert not TRANSLATIONS.of(word)


def test_every_line_has_dictionary_forms_as_the_index_keeps_them() -> None:
    lines = [line for line in FILE.read_text("utf-8").splitlines() if not line.startswith("#")]
    for key, words in (line.split(" ", 1) for line in lines[::200]):
        assert key == fold(key)
        assert words.split() == [fold(word) for word in words.split()]


def test_a_translation_is_another_way_to_fit_the_same_clause() -> None:
    query = TRANSLATIONS.widened(parse_query("coffee prices", now=NOW))
    assert query.translated
    assert query.words == "coffee prices"
    plan = make_plan(query, LEXICON, Counts(), [1])
    assert "'кофе'" in plan.ways[0][0].words
    assert plan.scored[0].fits.words == "'coffe'"
    assert "'кофе'" in plan.scored[0].foreign


def test_what_is_insisted_on_and_phrases_stay_as_they_are() -> None:
    query = parse_query('+war "cold war" =war', now=NOW)
    assert TRANSLATIONS.widened(query) == query


def test_a_long_query_is_translated_up_to_a_limit() -> None:
    query = TRANSLATIONS.widened(parse_query("war " * 30, now=NOW))
    assert sum(len(clause.options) > 1 for clause in query.clauses) <= MOST_WORDS


def test_of_a_few_words_those_that_the_archive_has_stay() -> None:
    query = parse_query("apple", now=NOW)
    common = Counts(1_000, dict.fromkeys(LEXICON.lemmas("apple"), 50))
    assert not translated(query, TRANSLATIONS, LEXICON, common).translated
    assert translated(query, TRANSLATIONS, LEXICON, Counts(1_000)).translated


def test_translated_words_weigh_less_than_those_that_were_asked_for() -> None:
    def post(number: int, language: str) -> Candidate:
        return Candidate(UUID(int=number), 1, NOW, None, 20, None, [0.6], language)

    own, foreign = post(1, "en"), post(2, "ru")
    near = {own.post_id: 0.3, foreign.post_id: 0.4}
    scale = scale_of([own, foreign], [1.0], near, translated=True)
    assert [one.candidate for one in rank([own, foreign], [1.0], near, scale)] == [own, foreign]
    alone = scale_of([foreign], [1.0], near, translated=True)
    assert alone.foreign == pytest.approx(scale.foreign)
