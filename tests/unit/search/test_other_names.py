"""Abbreviations and other names of the same: from the table, and as texts themselves say it."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from importlib.resources import files

import pytest

from telegram_assistant import language
from telegram_assistant.domain.query import parse_query
from telegram_assistant.domain.results import Origin, Passage
from telegram_assistant.language.inflection import Inflection, fold
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.other_names import OtherNames, counted, pairs_in
from telegram_assistant.search.snippets import Marker, snippet

pytestmark = pytest.mark.unit

LEARNT = {("лк", "ледяной кубок"): 5, ("зп", "зелёный пояс"): 4, ("зп", "заработная плата"): 3}


@pytest.fixture(scope="module")
def names() -> OtherNames:
    return OtherNames(Lexicon(Inflection()), LEARNT)


def others(names: OtherNames, text: str) -> list[set[str]]:
    query = names.widened(parse_query(text, now=datetime(2026, 11, 1, tzinfo=UTC)))
    return [{" ".join(term.words) for term in clause.others} for clause in query.clauses]


def test_no_name_stands_in_two_groups() -> None:
    table = tomllib.loads(files(language).joinpath("other_names.toml").read_text("utf-8"))
    groups, typed = table["groups"], table["typed"]
    every = [fold(name) for names in groups for name in names]
    assert len(every) == len(set(every))
    assert all(len(names) > 1 for names in groups)
    assert {fold(name) for name in typed.values()} <= set(every)


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("ставка ЦБ", [set(), {"Центробанк", "Банк России", "Центральный банк", "Bank of Russia"}]),
        ("доклад Госдуме", [set(), {"ГД", "Государственная дума", "State Duma"}]),
        ("us economy", [set(), set()]),
        ("US economy", [{"США", "Соединённые Штаты", "USA", "United States"}, set()]),
        ("финал лк", [set(), {"ледяной кубок"}]),
        ("зп", [set()]),
        ("+ЦБ =БПЛА", [set(), set()]),
        ('"ЦБ"', [set()]),
        ('"следственный комитет"', [set()]),
        ("#США", [set()]),
    ],
)
def test_plain_words_may_be_other_names(names: OtherNames, text: str, wanted: list[set[str]]) -> None:
    assert others(names, text) == wanted


def test_each_word_of_a_long_name_may_be_the_short_one(names: OtherNames) -> None:
    first, second, third = others(names, "Европейского парламента проверка")
    assert first == second == {"Европарламент", "European Parliament"}
    assert third == set()


@pytest.mark.parametrize(
    "text, pairs",
    [
        ("сказал глава Центрального банка (ЦБ) вчера", {("цб", "центрального банка")}),
        ("где ЧМ (чемпионат мира) начнётся", {("чм", "чемпионат мира")}),
        ("Министерства промышленности и торговли (МПТ)", {("мпт", "министерства промышленности и торговли")}),
        ("the International Monetary Fund (IMF) said", {("imf", "international monetary fund")}),
        ("Белый дом (США) сообщил", set()),
        ("лидер партии Иванов (РФ)", set()),
    ],
)
def test_a_text_says_what_letters_stand_for(text: str, pairs: set[tuple[str, str]]) -> None:
    assert pairs_in(text) == pairs


def test_several_posts_of_two_channels_must_say_it() -> None:
    said = [(1, "Ледяной кубок (ЛК)"), (1, "финал Ледяного кубка (ЛК)"), (1, "Ледяным кубком (ЛК)")]
    assert counted(said) == {}
    assert list(counted([*said[:2], (2, said[2][1])]).values()) == [3]


def test_other_names_are_marked_whole(names: OtherNames) -> None:
    query = names.widened(parse_query("ЦБ", now=datetime(2026, 11, 1, tzinfo=UTC)))
    marker = Marker.for_query(query, Lexicon(Inflection()))
    found = snippet([Passage(Origin.TEXT, "Банк открыл в России офис, сообщили Банк России и Центробанк")], marker)
    assert [found.text[start:end] for start, end in found.spans] == ["Банк", "России", "Центробанк"]
    assert found.spans[0][0] > 30, "neither the other bank nor the country alone"
