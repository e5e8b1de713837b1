"""A phrase is found in any inflection, and only as a phrase."""

# ruff: noqa: RUF001 - the posts are Russian
from __future__ import annotations

import pytest

from telegram_assistant.language.inflection import Inflection, Wording, stem

pytestmark = pytest.mark.unit

INFLECTION = Inflection()


@pytest.mark.parametrize(
    "phrase,text",
    [
        ("ключевая ставка", "Совет директоров снизил ключевую ставку до 20%"),
        ("Владимир Путин", "встреча с Владимиром Путиным прошла"),
        ("пёс", "у этого пса нет хозяина"),
        ("Хрущев", "Никиты Хрущёва не было"),
        ("город-миллионник", "лидер среди городов-миллионников"),
        ("election", "The elections were held"),
        ("companies", "a company was founded"),
        ("interest rate", "Interest rates rose"),
        ("running", "he runs daily"),
        ("MacBook Pro", "the new MacBook Pro's chip"),
        ("关税", "将对进口汽车征收新的关税"),
    ],
)
def test_found_in_another_form(phrase: str, text: str) -> None:
    assert Wording(text, INFLECTION).has(phrase)


@pytest.mark.parametrize(
    "phrase,text",
    [
        ("ключевая ставка", "ключевая тема: ставка снижена"),  # the words are not side by side
        ("ставка ключевая", "ключевая ставка"),  # nor in this order
        ("выборы", "победа на бирже"),
        ("cat", "the category of concatenation"),  # a part of a word is no word
        ("", "anything"),
        ("!!!", "what!!!"),
        ("税関", "新的关税"),
    ],
)
def test_not_found(phrase: str, text: str) -> None:
    assert not Wording(text, INFLECTION).has(phrase)


def test_places_are_told_in_order() -> None:
    assert Wording("рубль упал, рубля нет, рублю хуже", INFLECTION).places("рубль") == [0, 2, 4]


@pytest.mark.parametrize(
    "words", [("make", "makes", "making"), ("policy", "policies"), ("stop", "stopped", "stopping")]
)
def test_english_forms_share_a_stem(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_short_words_keep_their_letters() -> None:
    assert [stem(word) for word in ("bus", "news", "gas", "is", "red")] == ["bus", "new", "gas", "is", "red"]
