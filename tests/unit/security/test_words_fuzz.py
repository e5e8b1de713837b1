"""Words of strangers on our pages and in our searches: read by another parser than ours, and never an error."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import html

from telegram_assistant.domain.query import (
    WRITTEN,
    has_filter,
    parse_query,
    with_filter,
    without_filter,
    without_filters,
)
from telegram_assistant.domain.text import Entity, EntityKind
from telegram_assistant.http.web.rendering import rendered

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 15, tzinfo=UTC)
OFTEN = settings(max_examples=150, deadline=None)
ALLOWED = {"b", "i", "u", "s", "span", "code", "blockquote", "a"}
ATTRIBUTES = {"href", "title", "rel", "class", "tabindex"}
SAFE = re.compile(r"https?://|tg://user\?id=\d+$|mailto:|/search\?q=", re.IGNORECASE)
HOSTILE = [
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</span><svg/onload=alert(1)>", "<!--", "]]>"),
    *(
        "javascript:alert(1)",
        "JaVaScRiPt\t:alert(1)",
        "data:text/html,<script>",
        "vbscript:x",
        "//evil.example",
        "&#x6a;",
    ),
    *(
        "\ud83d",
        "\ude00",
        "\ud800\ud800",
        "\u202e",
        "\0",
        "\r\n",
        "😀",
        "&lt;",
        "'",
        '"',
        "`",
        "#тег",
        "@name",
        "a@b.example",
    ),
]
ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)  # with lone surrogates
TEXTS = st.lists(st.sampled_from(HOSTILE) | ANY, max_size=8).map("".join)
NUMBERS = st.integers(-3, 80) | st.sampled_from([-(2**31), 2**31, 2**63])
ENTITIES = st.builds(
    Entity, st.sampled_from(EntityKind), NUMBERS, NUMBERS, st.none() | TEXTS, st.none() | TEXTS | st.just("42")
)


@OFTEN
@given(TEXTS, st.lists(ENTITIES, max_size=12))
def test_entities_make_no_other_markup(text: str, entities: list[Entity]) -> None:
    markup = f"<main>{rendered(text, entities)}</main>".encode()  # text would be refused for control characters
    page = html.fragment_fromstring(markup, parser=html.HTMLParser(encoding="utf-8"))
    assert page.tag == "main"
    for element in page.iterdescendants():
        assert element.tag in ALLOWED, element.tag
        assert set(element.attrib) <= ATTRIBUTES
        href = element.get("href")
        assert href is None or SAFE.match(href), href
    # libxml drops characters that XML has not; letters must all be there, in their order.
    assert letters("".join(page.itertext())) == letters(text)


def letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum() or character in "<>&\"'")


NAMES = [*WRITTEN.values(), "after", "before", "канал", "тег", "nothing", ""]
QUERIES = st.lists(
    st.builds("{}{}:{}".format, st.sampled_from(["", "-", "+", "="]), st.sampled_from(NAMES), ANY)
    | st.sampled_from([*'"«» ', " OR ", "a" * 1_001, "(" * 50, '"' * 49, "after:0001-01-01", "before:9999-12-31", "0d"])
    | ANY,
    max_size=20,
).map(" ".join)


@OFTEN
@given(QUERIES)
def test_any_text_is_a_query(text: str) -> None:
    query = parse_query(text, now=NOW)
    assert parse_query(text, now=NOW) == query
    assert all(str(note) for note in query.notes)
    left = without_filters(text)
    assert without_filters(left) == left


@OFTEN
@given(QUERIES, st.sampled_from(sorted(WRITTEN)), st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9))
@example("+канал:0", "channels", "0")
def test_a_filter_that_is_put_in_is_there_once_and_can_be_taken_out(text: str, field: str, value: str) -> None:
    text = text[:900].replace('"', " ")
    once = with_filter(text, field, value)
    assert has_filter(once, field, value)
    assert with_filter(once, field, value) == once
    written = f"{WRITTEN[field]}:{value}"
    if written.casefold() not in text.casefold():
        assert not has_filter(without_filter(once, written), field, value)
