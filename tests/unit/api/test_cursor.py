"""Cursors: what was written is read again, and nothing else is."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.http.answers import read_cursor, write_cursor
from telegram_assistant.services.problems import Problem

pytestmark = pytest.mark.unit

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(TEXTS, INTS)
def test_what_was_written_is_read(title: str, number: int) -> None:
    assert read_cursor(write_cursor(title, number), str, int) == [title, number]


@given(st.text())
def test_anything_else_is_a_problem_or_a_cursor(cursor: str) -> None:
    with suppress(Problem):
        title, number = read_cursor(cursor, str, int)
        assert isinstance(title, str)
        assert isinstance(number, int)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        write_cursor("a"),
        write_cursor(1, "a"),
        write_cursor("a", 1, 2),
        write_cursor("a", 2**63),
        "WyJhXDAiLDFd",
        write_cursor("a\0", 1),
    ],
)
def test_cursors_of_other_lists_are_refused(cursor: str) -> None:
    with pytest.raises(Problem):
        read_cursor(cursor, str, int)
