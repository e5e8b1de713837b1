"""How a query is put to the index: rare words lead, common ones only rank."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from telegram_assistant.domain.query import parse_query
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.plan import Counts, Either, Plan, keys_of, make_plan

pytestmark = pytest.mark.unit

LEXICON = Lexicon(Inflection())
COUNTS = Counts(
    100_000,
    {"нефть": 800, "цена": 9_000, "рост": 7_000, "год": 40_000, "газпром": 50, "has:photo": 60_000, "has:voice": 40},
)


def plan(text: str, counts: Counts = COUNTS) -> Plan:
    return make_plan(parse_query(text, now=datetime(2026, 11, 1, tzinfo=UTC)), LEXICON, counts, [1, 2])


def word(*lemmas: str) -> tuple[Either, ...]:
    return tuple(Either(f"'{lemma}'") for lemma in lemmas)


def test_all_words_or_a_rare_one_or_two_less_rare_ones_lead_to_candidates() -> None:
    made = plan("цены на нефть рост")
    assert made.ways[0] == word("нефть", "рост", "цена")
    assert word("нефть") in made.ways
    assert word("рост") not in made.ways
    assert word("цена") not in made.ways
    few = plan("цены нефть рост", Counts(1_000_000, {"нефть": 50_000, "цена": 9_000, "рост": 7_000}))
    assert few.ways == (word("рост", "цена", "нефть"), word("рост", "цена"))


def test_words_of_every_post_are_looked_for_only_alone() -> None:
    assert [scored.fits for scored in plan("газпром года").scored] == list(word("газпром"))
    assert [scored.fits for scored in plan("год").scored] == list(word("год"))


def test_words_that_only_hold_others_together_are_left_out() -> None:
    assert [scored.fits for scored in plan("что the ценой of").scored] == list(word("цена"))
    assert len(plan("что of").scored) == 2, "unless there are no others"
    assert len(plan("цена +на").scored) == 2, "or somebody insists"


def test_rare_words_are_worth_more() -> None:
    rare, common = plan("газпром цена").scored
    assert rare.worth > 2 * common.worth > 0


def test_what_is_insisted_on_must_be_there_and_the_rest_ranks() -> None:
    made = plan('+нефть цена "рост цены"')
    assert made.must == (*word("нефть"), Either("'рост' <-> 'цена'"))
    assert made.ways == ()
    assert len(made.scored) == 3
    assert made.expected <= 800


def test_forms_as_written_and_alternatives() -> None:
    made = plan("=нефти цена OR =рост")
    assert made.must == (Either("", "'=нефти'"), Either("'цена'", "'=рост'"))


def test_filters_are_looked_up_only_if_they_are_rare() -> None:
    assert plan("цена has:photo").must == ()
    rare = plan("цена has:voice")
    assert rare.must == (Either(forms="'has:voice'"),)
    assert rare.expected == 40
    assert rare.only.has == ("voice",)
    assert plan("has:photo").by_index is False
    assert plan("tag:неизвестный").by_index is True


def test_leaving_out_alone_is_no_way_to_look_up() -> None:
    made = plan("-нефть")
    assert made.must_not == word("нефть")
    assert made.by_index is False


def test_without_counts_all_words_weigh_the_same() -> None:
    made = plan("цена года газпром", Counts())
    assert len({scored.worth for scored in made.scored}) == 1
    assert len(made.ways) == 4


def test_the_counts_that_are_needed() -> None:
    query = parse_query("нефти =цены has:photo -рост", now=datetime(2026, 11, 1, tzinfo=UTC))
    assert keys_of(query, LEXICON) == {"нефть", "цена", "has:photo"}
