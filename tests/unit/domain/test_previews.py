"""Rounded figures beside exact ones, and the words of a page beside those that Telegram told."""

from __future__ import annotations

import pytest

from telegram_assistant.domain.post import Counters
from telegram_assistant.domain.previews import counted, same_words

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "known,shown,expected",
    [
        (None, 1200, 1200),
        (1234, 1200, 1234),  # 1.2K
        (1234, 1300, 1300),
        (999, 1000, 999),
        (1_234_567, 1_200_000, 1_234_567),
        (1_234_567, 1_400_000, 1_400_000),
        (7, 8, 8),
        (7, None, 7),
    ],
)
def test_an_exact_figure_stays_while_the_rounded_one_agrees(
    known: int | None, shown: int | None, expected: int | None
) -> None:
    assert counted(Counters(views=known), Counters(views=shown)).views == expected


def test_what_a_page_does_not_tell_stays() -> None:
    known = Counters.counted(views=10, forwards=3, replies=2, reactions={"👍": 1234, "🔥": 5})
    assert counted(known, Counters(views=10)) == known
    shown = Counters.counted(views=10, reactions={"👍": 1200, "🔥": 6})
    assert dict(counted(known, shown).reactions) == {"👍": 1234, "🔥": 6}


def test_words_are_the_same_wherever_an_album_has_its_caption() -> None:
    assert same_words(["one  two\n", ""], ["", "one two"])
    assert same_words(["\N{HEAVY BLACK HEART}\N{VARIATION SELECTOR-16}"], ["\N{HEAVY BLACK HEART}"])
    assert not same_words(["one"], ["two"])
    assert same_words(["one"], ["one", "two"]), "of several captions a page shows one"
    assert not same_words(["one", "two"], ["one"])
    assert not same_words(["one"], [""])
