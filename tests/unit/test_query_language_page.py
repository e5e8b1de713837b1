"""The page about the query language: every example on it is understood."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from telegram_assistant.domain.query import LONGEST, MOST_CLAUSES, parse_query

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "query-language.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]
EXAMPLES = [found.replace(r"\|", "|") for row in ROWS for found in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
FILTERS = re.findall(r"`(-?\w+:[^`]+)`", PAGE)


def test_the_page_is_read() -> None:
    assert len(EXAMPLES) > 15
    assert len(FILTERS) > 15
    assert f"{LONGEST:,} characters" in PAGE
    assert f"{MOST_CLAUSES} words" in PAGE


@pytest.mark.parametrize("example", [*EXAMPLES, *FILTERS])
def test_every_example_is_understood(example: str) -> None:
    query = parse_query(example, now=datetime(2026, 11, 1, tzinfo=UTC))
    assert query.notes == ()
    assert query != parse_query("", now=datetime(2026, 11, 1, tzinfo=UTC))
    if example in FILTERS:
        assert query.clauses == (), "a filter is no word"
