"""The kind of a picture from its measures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.models import MOST_LABELS, Classification
from telegram_assistant.domain.pictures import Features, Words, classify, colour_name, labels

pytestmark = pytest.mark.unit

PHOTO = Features(
    width=1280, height=853, colours=180, flat=0.3, edges=0.05, paper=0.02, saturation=0.2, brightness=0.5, words=Words()
)
PAGE = Features(
    width=900, height=1270, colours=8, flat=0.7, edges=0.15, paper=0.85, saturation=0.03, brightness=0.85, words=Words()
)
DARK_CARD = replace(PAGE, width=480, height=480, paper=0.02, saturation=0.3, brightness=0.3)
CAPTION = Words(count=6, area=0.1, height=0.08, above=3, below=3)


@pytest.mark.parametrize(
    "features,kind",
    [
        (PHOTO, Classification.PHOTO),
        (replace(PHOTO, words=None), Classification.PHOTO),
        (replace(PHOTO, words=CAPTION), Classification.MEME),
        (replace(PHOTO, words=replace(CAPTION, above=0, below=6)), Classification.PHOTO),
        (replace(PAGE, words=Words(count=200, area=0.3, height=0.01, above=70, below=60)), Classification.DOCUMENT),
        (replace(PAGE, words=Words(count=40, area=0.08, height=0.02, above=20, below=10)), Classification.SCREENSHOT),
        (replace(PAGE, height=2000, words=Words(count=6, area=0.02, height=0.02, above=2)), Classification.SCREENSHOT),
        (replace(PAGE, words=Words(count=8, area=0.05, height=0.03, above=5, below=3)), Classification.INFOGRAPHIC),
        (PAGE, Classification.OTHER),
        (replace(PAGE, words=None), Classification.DOCUMENT),
        (replace(PAGE, words=None, edges=0.07), Classification.SCREENSHOT),
        (replace(PAGE, words=None, edges=0.01), Classification.OTHER),
        (replace(DARK_CARD, words=CAPTION), Classification.MEME),
        (replace(DARK_CARD, words=replace(CAPTION, above=1)), Classification.INFOGRAPHIC),
        (replace(DARK_CARD, words=Words(count=40, area=0.1, height=0.02, above=9)), Classification.SCREENSHOT),
    ],
)
def test_kinds(features: Features, kind: Classification) -> None:
    assert classify(features) is kind


def test_labels_are_facts() -> None:
    found = labels(PHOTO, Classification.PHOTO, ("#336699", "#0000ff", "#ffffff"), 0.01)
    assert found == ("photo", "no text", "landscape", "blue", "white")
    night = replace(PAGE, brightness=0.1, saturation=0.0, animated=True, transparent=True, words=None)
    found = labels(night, Classification.OTHER, (), 0.95)
    assert found == ("other", "portrait", "dark", "greyscale", "animated", "transparent", "nsfw")
    assert "square" in labels(DARK_CARD, Classification.OTHER, (), None)


@given(st.lists(st.from_regex(r"#[0-9a-f]{6}", fullmatch=True), max_size=40))
def test_there_are_never_too_many_labels(colours: list[str]) -> None:
    found = labels(PHOTO, Classification.PHOTO, tuple(colours), 1.0)
    assert len(found) <= MOST_LABELS
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "colour,name",
    [
        ("#000000", "black"),
        ("#ffffff", "white"),
        ("#808080", "grey"),
        ("#ff0000", "red"),
        ("#ff8800", "orange"),
        ("#6b4423", "brown"),
        ("#ffee00", "yellow"),
        ("#00aa00", "green"),
        ("#00cccc", "cyan"),
        ("#1133cc", "blue"),
        ("#7700cc", "purple"),
        ("#ff55bb", "pink"),
        ("#ff0011", "red"),
    ],
)
def test_names_of_colours(colour: str, name: str) -> None:
    assert colour_name(colour) == name
