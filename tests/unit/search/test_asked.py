"""What a question asks for, and whether a sentence has it."""

# ruff: noqa: RUF001 - the questions are Russian

import pytest

from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.questions import (
    Asked,
    asks_for,
    asks_for_now,
    days_back,
    focus_of,
    has_answer,
    is_name,
    said_for,
)

INFLECTION = Inflection()


@pytest.mark.parametrize(
    "question, asked",
    [
        ("Кто стал президентом?", Asked.NAME),
        ("кому дали премию мира", Asked.NAME),
        ("Сколько лет Набиуллиной?", Asked.AGE),
        ("сколько стоит доллар", Asked.NUMBER),
        ("Какая сегодня ключевая ставка", Asked.NUMBER),
        ("когда выборы в США", Asked.TIME),
        ("Почему упал рубль?", Asked.REASON),
        ("За что задержали мисс Россию?", Asked.CHARGE),
        ("Где упал самолёт?", Asked.PLACE),
        ("Who won the election?", Asked.NAME),
        ("How many people died?", Asked.NUMBER),
        ("How tall is he?", Asked.NUMBER),
        ("что с Трампом", Asked.ANYTHING),
    ],
)
def test_what_is_asked_for(question: str, asked: Asked) -> None:
    assert asks_for(question) is asked


@pytest.mark.parametrize(
    "question, sentence, has",
    [
        ("сколько стоит доллар", "Доллар стоит 113 рублей.", True),
        ("сколько стоит доллар", "Доллар дорожает.", False),
        ("сколько погибло в 2024 году", "В 2024 году погибших стало больше.", False),
        ("сколько кокаина изъяли", "Тонну кокаина изъяли силовики.", True),
        ("сколько лет Набиуллиной", "Инфляция снизится в 2025 году, сказала Набиуллина.", False),
        ("сколько лет Набиуллиной", "Набиуллиной исполнился 61 год.", True),
        ("когда выборы", "Выборы пройдут 5 ноября.", True),
        ("когда выборы", "Выборы пройдут по-новому.", False),
        ("кто сменил Собянина", "Собянин открыл станцию.", False),
        ("кто получил премию", "Премию получила Хан Ган.", True),
        ("кто видел комету", "Такую комету видят раз в двести лет.", False),  # the first word is no name
        ("кто видел комету", "Комету видели с орбиты — МЧС", False),  # that one only says so
        ("Who owns the station in Makhachkala?", "Пожар в Махачкале потушен.", False),  # in the question, too
        ("где нашли клад", "Клад нашли под Костромой.", True),
        ("где нашли клад", "Клад нашёл Иван Петров.", False),
        ("сколько дали Горинову", "Его приговорили к трем годам.", True),
        ("почему отменили выборы", "Парламент проголосовал за отмену.", False),
        ("почему закрыли порт", "Порт закрыли из-за шторма.", True),
        ("почему закрыли порт", "Порт закрыли.", False),
    ],
)
def test_a_sentence_has_what_is_asked_for_or_not(question: str, sentence: str, *, has: bool) -> None:
    assert has_answer(sentence, asks_for(question), question, INFLECTION) is has


@pytest.mark.parametrize("word, name", [("Путин", True), ("путина", True), ("россии", True), ("рост", False)])
def test_names_are_known_without_a_capital_letter(word: str, *, name: bool) -> None:
    assert is_name(word, INFLECTION, first=True) is name


@pytest.mark.parametrize(
    "words, focus",
    [
        (["президент"], "президент"),
        (["человек", "погибло", "ударе"], "погибло"),
        (["главную", "ёлку"], "ёлку"),
        (["country", "ended"], "ended"),
        ([], ""),
    ],
)
def test_the_word_that_is_asked_about(words: list[str], focus: str) -> None:
    assert focus_of(words, INFLECTION) == focus


def test_words_are_said_for_one_another_in_two_languages() -> None:
    assert {"жертва", "killed"} <= said_for("погибнуть")
    assert "рост" in said_for("tall")
    assert not said_for("стол")


def test_the_clock_of_a_question() -> None:
    assert days_back("что будет завтра в Москве") == 2
    assert days_back("What happened this week?") == 8
    assert days_back("кто президент") is None
    assert asks_for_now("какой сейчас курс")
    assert not asks_for_now("какой был курс")
