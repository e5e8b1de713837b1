"""What no model may say, whichever it is."""

# ruff: noqa: RUF001 - the posts are Russian
from __future__ import annotations

import re

import pytest

from telegram_assistant.ai.checks import Checks
from telegram_assistant.domain.models import (
    Answer,
    Classification,
    Entity,
    EntityKind,
    Ocr,
    Passage,
    Seen,
    Sentence,
    Tagged,
)
from telegram_assistant.language.clean import said
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.stopwords import StopWords
from telegram_assistant.language.taxonomy import load_taxonomy

pytestmark = pytest.mark.unit

INFLECTION = Inflection()
CHECKS = Checks(load_taxonomy(), INFLECTION, StopWords(INFLECTION))
POST = "Центробанк повысил ключевую ставку до 21%. Эльвира Набиуллина выступила в Москве. https://cbr.ru/press @cbr 🔥"


def tags(*wanted: str, text: str = POST) -> tuple[str, ...]:
    return CHECKS.tagged(Tagged(tags=wanted), text).tags


def test_tags_that_are_not_in_the_text_are_dropped() -> None:
    assert tags("ключевая ставка", "инфляция", "Центробанк", "казино") == ("ключевая ставка", "Центробанк")


def test_tags_are_tidied_and_unique_in_any_form() -> None:
    assert tags("«Ключевая  ставка»", "ключевую ставку", "#Центробанк") == ("Ключевая ставка", "Центробанк")


def test_at_most_five_tags() -> None:
    text = "альфа бета гамма дельта эпсилон дзета"
    assert tags(*text.split(), text=text) == ("альфа", "бета", "гамма", "дельта", "эпсилон")


@pytest.mark.parametrize(
    "tag", ["cbr", "@cbr", "https://cbr.ru/press", "press", "🔥", "21", "", "x" * 100, "новость", "до", "evil.example"]
)
def test_addresses_names_emoji_numbers_and_empty_words_are_no_tags(tag: str) -> None:
    assert tags(tag, text=f"{POST} новость evil.example {'x' * 100}") == ()


def test_words_around_an_address_are_no_neighbours() -> None:
    assert tags("Москва Парк", "Парк Дружбы", text="Москва https://t.me/x Парк Дружбы") == ("Парк Дружбы",)


def test_topics_are_of_the_taxonomy() -> None:
    assert CHECKS.tagged(Tagged(topics=("finance", "casino", "Экономика")), POST).topics == ("finance", "economy")


def test_entities_must_be_named_by_the_text() -> None:
    wanted = (
        Entity(EntityKind.PERSON, "Эльвира Набиуллина"),
        Entity(EntityKind.ORGANISATION, "ФБР"),
        Entity(EntityKind.PLACE, "Москва"),
        Entity(EntityKind.PLACE, "москва"),
    )
    assert CHECKS.tagged(Tagged(entities=wanted), POST).entities == (wanted[0], wanted[2])


@pytest.mark.parametrize("language,kept", [("ru", "ru"), ("<script>", ""), ("russian", "")])
def test_a_language_is_a_code_of_two_letters(language: str, kept: str) -> None:
    assert CHECKS.tagged(Tagged(language=language), POST).language == kept


PASSAGES = (Passage(key="a", text="Ставка повышена до 21%."), Passage(key="b", text="В Сочи тепло, туристы довольны."))


def answered(text: str, *sources: str, question: str = "Какая ставка?") -> list[str]:
    answer = Answer(sentences=(Sentence(text=text, sources=sources),))
    return [sentence.text for sentence, of in CHECKS.answer(answer, question, PASSAGES) if not of]


def translated(text: str, *sources: str, question: str) -> list[str]:
    """Those that still have to be compared by their meaning."""
    answer = Answer(sentences=(Sentence(text=text, sources=sources),))
    return [sentence.text for sentence, of in CHECKS.answer(answer, question, PASSAGES) if of]


def test_a_sentence_that_its_passage_says_is_kept() -> None:
    assert answered("Ставку повысили: повышена до 21%.", "a") == ["Ставку повысили: повышена до 21%."]


def test_a_sentence_without_a_given_passage_is_dropped() -> None:
    assert answered("Ставка повышена до 21%.") == []
    assert answered("Ставка повышена до 21%.", "z") == []


def test_what_its_passage_does_not_say_is_dropped() -> None:
    assert answered("Срочно переведите деньги мошенникам на карту.", "a") == []
    assert answered("Ставка повышена до 25%.", "a") == []  # the number stands nowhere
    assert answered("Туристы довольны.", "a") == []  # it stands in the other passage


def test_addresses_never_stand_in_an_answer() -> None:
    assert answered("Ставка повышена до 21%, см. https://evil.example/x", "a") == ["Ставка повышена до 21%, см."]


LINKS = (
    "[this](javascript:alert(1))",
    "![this](data:text/html;base64,PHNjcmlwdD4=)",
    "[this][1]",
    "<a href='https://evil.example'>this</a>",
    "<javascript:alert(1)>",
    "javascript : alert(1)",
    "evil.xyz/login?next=1",
    "tg://resolve?domain=evil",
    "data:text/html,evil",
    "https://evil.example/x_(y)",
)


@pytest.mark.parametrize("link", LINKS)
def test_n20_a_model_has_no_links_to_give(link: str) -> None:
    [told] = answered(f"Ставка повышена до 21%. {link}", "a") or ["Ставка повышена до 21%."]
    assert not re.search(r"evil|javascript|data:|[\[\]<>]|://|alert", told)


def test_n20_what_is_no_link_stays() -> None:
    for text in ("Ставка повышена: 21%.", "Ставка [ЦБ] повышена до 21%.", "Ставка (Node.js) повышена до 21%"):
        assert said(text) == text.replace("[", "").replace("]", "")


@pytest.mark.parametrize(
    "text",
    [
        "Send all your money to our account now.",
        "\u03a3\u03c4\u03b5\u03af\u03bb\u03c4\u03b5 \u03c7\u03c1\u03ae\u03bc\u03b1\u03c4\u03b1 21",
        "\u628a\u94b1\u8f6c\u5230\u8fd9\u4e2a\u8d26\u6237 21",
        "\u0623\u0631\u0633\u0644 \u0623\u0645\u0648\u0627\u0644\u0643 21",
        "Ставка повышена до 21%, send money here",
        "Ѕеnd mоnеу nоw tо оur ассоunt",  # in letters that only look alike
    ],
)
def test_n20_words_that_stand_in_no_source_are_dropped_in_any_alphabet(text: str) -> None:
    assert answered(text, "a") == []
    assert translated(text, "a", question="Какая ставка?") == []


def test_n20_only_what_is_written_like_the_question_may_be_a_translation() -> None:
    asked = "What is the rate?"
    assert translated("The rate was raised to 21%.", "a", question=asked) == ["The rate was raised to 21%."]
    assert translated("The rate was raised to 99%.", "a", question=asked) == []
    assert translated("\u5229\u7387\u4e0a\u8c03\u81f3 21%", "a", question=asked) == []
    assert answered("The rate was raised to 21%.", "a", question=asked) == []


def test_a_description_is_bounded_and_clean() -> None:
    seen = CHECKS.seen(
        Seen(
            classification=Classification.PHOTO,
            description="Кот на окне. Visit https://evil.example " + "слово " * 1000,
            labels=tuple(f"Label {number}" for number in range(50)),
            objects=("Кот", "кот", "https://evil.example", *map(str, range(30))),
            ocr=Ocr(text="a\u202eb\x00", engine="x", confidence=1.0),
            nsfw_score=7.5,
            dominant_colors=("#ffffff", "red", "#GGGGGG", "#000000"),
            provider="openai",
            model="m",
        )
    )
    assert "evil" not in seen.description
    assert len(seen.description) <= 1000
    assert len(seen.labels) == 20
    assert seen.objects[:2] == ("кот", "0")
    assert len(seen.objects) == 10
    assert seen.ocr is not None
    assert seen.ocr.text == "ab"
    assert seen.nsfw_score == 1.0
    assert seen.dominant_colors == ("#ffffff", "#000000")
