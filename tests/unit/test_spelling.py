"""Words as people type them, and what they meant, among the words of the archive."""

from __future__ import annotations

import pytest

from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.spelling import Vocabulary, sound

ARCHIVE = {
    "набиуллина": 28,
    "набиуллиной": 3,
    "биткоин": 91,
    "путин": 503,
    "ракета": 394,
    "президент": 616,
    "маск": 41,
    "мск": 300,
    "кол": 60,
    "apple": 41,
    "chatgpt": 31,
    "google": 34,
    "youtube": 77,
    "python": 79,
    "react": 22,
    "heavy": 4,
    "yandex": 7,
    "яндекс": 70,
    "гугл": 3,
    "кот": 32,
    "код": 90,
    "зеленский": 168,
    "тело": 160,
    "тесла": 2,
    "центробанк": 27,
    "доллара": 400,
    "долара": 2,
    "ключевая": 60,
    "ключица": 9,
    "крик": 10,
}


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon(Inflection())


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("Набиулиной", "набиуллиной"),
        ("бидкоин", "биткоин"),
        ("центрабанк", "центробанк"),
        ("зеленски", "зеленский"),
        ("долара", "доллара"),  # two posts write it so
        ("ключивая", "ключевая"),
        ("ракетта", "ракета"),  # and not react, which sounds so
        ("путен", "путин"),
        ("Эппл", "apple"),
        ("чатгпт", "chatgpt"),
        ("гугл", "google"),  # three posts write it so
        ("ютуб", "youtube"),
        ("musk", "маск"),  # and not what is written without vowels
        ("putin", "путин"),
        ("zelensky", "зеленский"),
        ("yandex", "яндекс"),
        ("ghtpbltyn", "президент"),  # typed with the other keyboard
    ],
)
def test_what_was_meant(lexicon: Lexicon, typed: str, meant: str) -> None:
    assert Vocabulary(ARCHIVE, lexicon).meant(typed) == meant


@pytest.mark.parametrize(
    "typed",
    ["кот", "кряк", "президент", "яндекс", "asdkjhasd", "фывапролд", "хуавей", "тесла", "12345", "🔥", "я", "kl"],
)
def test_a_word_that_is_known_or_like_no_other_stays(lexicon: Lexicon, typed: str) -> None:
    assert Vocabulary(ARCHIVE, lexicon).meant(typed) is None


@pytest.mark.parametrize(
    "one, other",
    [("эппл", "apple"), ("гугл", "google"), ("айфон", "iphone"), ("фейсбук", "facebook"), ("дуров", "durov")],
)
def test_a_name_sounds_the_same_in_both_alphabets(one: str, other: str) -> None:
    assert sound(one) == sound(other)
