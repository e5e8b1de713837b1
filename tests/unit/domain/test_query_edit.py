"""Filters that a click puts into a query, or takes out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from telegram_assistant.domain.query import filters_in, has_filter, parse_query, with_filter, without_filter

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "field, value, written",
    [
        ("channels", "@durov", "нефть channel:@durov"),
        ("tags", "ключевая ставка", 'нефть tag:"ключевая ставка"'),
        ("tags", 'a "b" (c)', 'нефть tag:"a b c"'),
        ("languages", "ru", "нефть lang:ru"),
        ("has", "photo", "нефть has:photo"),
    ],
)
def test_a_filter_is_put_in_once_and_taken_out(field: str, value: str, written: str) -> None:
    query = with_filter("нефть", field, value)
    assert query == written
    assert with_filter(query, field, value) == query
    [(token, name, _)] = filters_in(query)
    assert name == field
    assert without_filter(query, token) == "нефть"
    assert getattr(parse_query(query, now=NOW).only, field)


def test_the_rest_stays_as_it_is() -> None:
    query = '+нефть "цена на" -газ tag:"a b" OR =стали канал:@x before:2024-01'
    tokens = [token for token, _, _ in filters_in(query)]
    assert tokens == ['tag:"a b"', "канал:@x", "before:2024-01"]
    assert without_filter(query, "канал:@x") == '+нефть "цена на" -газ tag:"a b" OR =стали before:2024-01'
    assert without_filter(query, "tag:nothing") == query
    assert without_filter("-tag:x tag:x", "tag:x") == "-tag:x"
    assert without_filter("снег тег:X", "tag:x") == "снег"
    assert without_filter("тег:«a b» снег", 'тег:"a b"') == "снег"


def test_what_is_left_out_is_no_filter_that_is_in() -> None:
    assert not has_filter("-has:photo", "has", "photo")
    assert has_filter("HAS:Photo", "has", "photo")


@pytest.mark.parametrize("odd", ["", '"', "tag:", "\0", "\ud800", "x" * 10_000, "tag:" * 3_000, 'tag:"' * 500])
def test_odd_queries_can_be_edited_too(odd: str) -> None:
    assert with_filter(odd, "tags", "нефть").endswith("tag:нефть")
    for token, _, _ in filters_in(odd):
        without_filter(odd, token)
