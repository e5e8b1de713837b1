"""The text of a post: links from entities (LESSONS 23), UTF-16 offsets, and cleaning at the edge."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.text import Entity, EntityKind, Link, clean_message, clean_text, links_of

pytestmark = pytest.mark.unit


def urls_of(text: str, entities: Sequence[Entity]) -> tuple[str, ...]:
    return tuple(link.url for link in links_of(text, entities))


anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)  # NULs and lone surrogates too


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def entity(text: str, part: str, kind: EntityKind = EntityKind.URL, url: str | None = None) -> Entity:
    return Entity(kind, units(text[: text.index(part)]), units(part), url)


def test_lesson_23_visible_and_hidden_links_come_from_the_entities_in_order() -> None:
    text = "see https://a.example/x and here, or b.example"
    entities = [
        entity(text, "b.example"),
        entity(text, "https://a.example/x"),
        entity(text, "here", EntityKind.TEXT_URL, "https://hidden.example/"),
        entity(text, "see", EntityKind.BOLD),
    ]
    assert links_of(text, entities) == (
        Link("https://a.example/x", "https://a.example/x"),
        Link("https://hidden.example/", "here", hidden=True),
        Link("http://b.example", "b.example"),
    )
    assert urls_of(text, entities) == ("https://a.example/x", "https://hidden.example/", "http://b.example")


def test_lesson_23_an_address_without_an_entity_is_not_a_link() -> None:
    assert links_of("https://placeholder.example", []) == ()


def test_the_same_address_is_one_link() -> None:
    text = "https://a.example https://a.example here"
    entities = [
        Entity(EntityKind.URL, 0, 17),
        Entity(EntityKind.URL, 18, 17),
        Entity(EntityKind.TEXT_URL, 36, 4, "https://a.example"),
    ]
    assert urls_of(text, entities) == ("https://a.example",)


@pytest.mark.parametrize("before", ["", "👍🏽 ", "👨‍👩‍👧‍👦 семья ", "\U0001d518\U0001d52b ", "\ufeff", "é" * 50])
def test_offsets_are_utf_16_code_units(before: str) -> None:
    text = f"{before}https://a.example/путь конец"
    assert urls_of(text, [entity(text, "https://a.example/путь")]) == ("https://a.example/путь",)


@given(anything, anything)
def test_offsets_hold_after_any_text(before: str, after: str) -> None:
    text, found = f"{before} https://a.example {after}", Entity(EntityKind.URL, units(before) + 1, 17)
    assert urls_of(text, [found]) == ("https://a.example",)


@pytest.mark.parametrize(
    "url,expected",
    [
        ("a.example/x?y=1:2", "http://a.example/x?y=1:2"),
        ("a.example:8080/x", "http://a.example:8080/x"),
        ("HTTPS://A.example", "HTTPS://A.example"),
        ("tg://resolve?domain=x", "tg://resolve?domain=x"),
        ("mailto:a@b.example", "mailto:a@b.example"),
    ],
)
def test_a_bare_domain_gets_a_scheme(url: str, expected: str) -> None:
    assert urls_of(url, [Entity(EntityKind.URL, 0, len(url))]) == (expected,)


@pytest.mark.parametrize("offset,length", [(-5, 3), (0, 0), (0, -3), (100, 5), (2**31 - 1, 2**31 - 1)])
def test_g6_entities_outside_of_the_text_are_harmless(offset: int, length: int) -> None:
    assert links_of("short", [Entity(EntityKind.URL, offset, length)]) == ()


def test_g6_a_hidden_link_without_an_address_is_none() -> None:
    assert links_of("here", [Entity(EntityKind.TEXT_URL, 0, 4), Entity(EntityKind.TEXT_URL, 0, 4, "  ")]) == ()


def test_a_hidden_link_may_stand_behind_one_letter_but_not_behind_none() -> None:
    one, none = (
        Entity(EntityKind.TEXT_URL, 0, 1, "https://a.example"),
        Entity(EntityKind.TEXT_URL, 0, 0, "https://b.example"),
    )
    assert urls_of("x", [one, none]) == ("https://a.example",)


def test_a_link_that_shows_its_address_is_not_hidden() -> None:
    url = "https://a.example"
    assert links_of(url, [Entity(EntityKind.TEXT_URL, 0, 17, url)]) == (Link(url, url),)


@given(anything)
def test_clean_text_is_what_postgresql_and_utf_8_take(text: str) -> None:
    cleaned = clean_text(text)
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert clean_text(cleaned) == cleaned
    assert units(cleaned) == units(text.replace("\0", ""))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_clean_text_leaves_good_text_alone(text: str) -> None:
    assert clean_text(text) == text


@pytest.mark.parametrize(
    "text,expected",
    [
        ("a\0b\0", "ab"),
        ("a\ud83db", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ud83d\0\ude00", "\ufffd\ufffd"),
        ("photo\0.jpg", "photo.jpg"),
    ],
)
def test_clean_text_by_example(text: str, expected: str) -> None:
    assert clean_text(text) == expected


@given(anything, anything)
def test_entities_still_mean_the_same_after_nuls_went_away(before: str, after: str) -> None:
    word = "wo\0rd"
    text, marked = before + " " + word + " " + after, Entity(EntityKind.BOLD, units(before) + 1, units(word))
    cleaned, (moved,) = clean_message(text, [marked])
    encoded = cleaned.encode("utf-16-le")
    assert encoded[2 * moved.offset : 2 * (moved.offset + moved.length)].decode("utf-16-le") == "word"


def test_an_entity_moves_by_the_nuls_before_it() -> None:
    text, (moved,) = clean_message("\0a\0😀\0b", [Entity(EntityKind.BOLD, 6, 1)])
    assert (text, moved) == ("a😀b", Entity(EntityKind.BOLD, 3, 1))


def test_an_entity_of_nothing_but_nuls_goes_with_them() -> None:
    assert clean_message("a\0\0b", [Entity(EntityKind.BOLD, 1, 2)]) == ("ab", ())


def test_the_words_inside_of_entities_are_cleaned_too() -> None:
    dirty = [Entity(EntityKind.TEXT_URL, 0, 2, "https://a\0.example"), Entity(EntityKind.PRE, 0, 2, None, "py\ud83d")]
    text, (link, code) = clean_message("ab", dirty)
    assert (text, link.url, code.detail) == ("ab", "https://a.example", "py\ufffd")
