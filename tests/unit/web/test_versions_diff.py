"""What an edit changed: both texts can be read from it, whatever they are."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.http.web.rendering import diff

pytestmark = pytest.mark.unit

WORDS = st.text("ab <>&\n", max_size=80)


def without(tag: str, markup: str) -> str:
    rest = re.sub(rf"<{tag}>.*?</{tag}>", "", markup, flags=re.DOTALL)
    return unescape(re.sub(r"</?(?:ins|del)>", "", rest))


@given(WORDS, WORDS)
def test_both_texts_are_in_it(old: str, new: str) -> None:
    shown = diff(old, new)
    assert without("del", shown) == new
    assert without("ins", shown) == old
    assert set(re.findall("<[^>]*>", shown)) <= {"<ins>", "</ins>", "<del>", "</del>"}


def test_only_what_changed_is_marked() -> None:
    assert diff("one two three", "one 2 three") == "one <del>two </del><ins>2 </ins>three"
    assert diff("same", "same") == "same"
    assert diff("", "new") == "<ins>new</ins>"
    assert diff("old", "") == "<del>old</del>"


def test_a_script_stays_words() -> None:
    assert "<script" not in diff("<script>a</script>", "<script>b</script>")


def test_long_texts_that_have_nothing_in_common_are_not_compared() -> None:
    old, new = "a " * 2000, "b " * 2000
    assert diff(old, new) == f"<del>{old}</del><ins>{new}</ins>"
