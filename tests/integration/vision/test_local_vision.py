"""What the local describer says about pictures, through its worker process."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import TrainedData, find_trained_data
from telegram_assistant.domain.models import MOST_COLORS, MOST_LABELS, Classification, Picture, Seen
from telegram_assistant.errors import Fatal, Skip

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

RUSSIAN = [
    "Центральный банк сохранил ключевую ставку",
    "на уровне шестнадцать процентов годовых.",
    "Рынок ждал этого решения летом.",
]
ENGLISH = ["The central bank kept its key rate", "at sixteen percent a year on Friday.", "Markets expected this."]

FOUND = find_trained_data()
needs = {
    language: pytest.mark.skipif(
        FOUND is None or language not in FOUND.languages,
        reason=f"no {language}.traineddata: scripts/tessdata could not fetch it here",
    )
    for language in ("rus", "eng")
}
Make = Callable[..., Picture]


def errors_of(wanted: str, read: str) -> float:
    """Characters to change, as a share of the wanted."""
    row = list(range(len(read) + 1))
    for number, char in enumerate(wanted, 1):
        above, row[0] = row[0], number
        for at, other in enumerate(read, 1):
            above, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, above + (char != other))
    return row[-1] / len(wanted)


def text_of(seen: Seen) -> str:
    assert seen.ocr is not None
    return " ".join(seen.ocr.text.split())


@pytest.mark.parametrize(
    "lines,size",
    [
        pytest.param(RUSSIAN, 16, marks=needs["rus"], id="russian small"),
        pytest.param(RUSSIAN, 32, marks=needs["rus"], id="russian"),
        pytest.param(ENGLISH, 16, marks=needs["eng"], id="english small"),
        pytest.param(ENGLISH, 32, marks=needs["eng"], id="english"),
    ],
)
@pytest.mark.parametrize("colours", [("white", "black"), ("#102030", "white")], ids=["on white", "on dark"])
async def test_clean_text_is_read(
    vision: LocalVision, picture: Make, pencil: Any, lines: list[str], size: int, *, colours: tuple[str, str]
) -> None:
    seen = await vision.describe(picture(pencil.page(lines, size=size, colours=colours), "JPEG", quality=85))
    # The simulator's own letters have one shape for small and capital ones.
    limit, fold = (0.02, str) if pencil.font_path else (0.15, str.lower)
    assert errors_of(fold(" ".join(lines)), fold(text_of(seen))) <= limit
    assert seen.ocr is not None
    assert seen.ocr.confidence > 0.8
    assert seen.ocr.engine.startswith("tesseract 5")
    assert "text" in seen.labels
    assert seen.words.strip() == seen.ocr.text


@needs["eng"]
async def test_white_words_on_a_photo_are_a_meme(vision: LocalVision, picture: Make, pencil: Any) -> None:
    seen = await vision.describe(picture(pencil.meme("WHEN THE TESTS", "ARE GREEN AGAIN"), "JPEG", quality=80))
    assert text_of(seen) == "WHEN THE TESTS ARE GREEN AGAIN"
    assert seen.classification is Classification.MEME
    assert seen.is_meme


@needs["rus"]
async def test_a_page_of_text_is_a_document(vision: LocalVision, picture: Make, pencil: Any) -> None:
    seen = await vision.describe(picture(pencil.page(RUSSIAN * 9, size=20), "JPEG"))
    assert seen.classification is Classification.DOCUMENT
    assert not seen.is_meme


async def test_a_photo_has_nothing_to_say(vision: LocalVision, picture: Make, pencil: Any) -> None:
    seen = await vision.describe(picture(pencil.photo(1), "JPEG", quality=85))
    assert seen.classification is Classification.PHOTO
    assert seen.words == ""
    assert (seen.description, seen.objects, seen.scene) == ("", (), "")
    assert "landscape" in seen.labels


async def test_a_drawing(vision: LocalVision, picture: Make, pencil: Any) -> None:
    seen = await vision.describe(picture(pencil.logo()))
    assert seen.classification is Classification.OTHER
    assert seen.dominant_colors[:2] == ("#f5f5f5", "#1040c0")
    assert {"square", "white", "blue"} <= set(seen.labels)
    assert (seen.provider, seen.model) == (vision.identity.provider, vision.identity.model)
    assert seen.usage.tokens_in == seen.usage.tokens_out == 0
    assert seen.usage.latency_ms > 0


async def test_every_result_keeps_its_limits(vision: LocalVision, picture: Make, pencil: Any) -> None:
    for drawn in (pencil.photo(2), pencil.scribble(5), pencil.logo(), Image.new("RGB", (64, 64), "red")):
        seen = await vision.describe(picture(drawn))
        assert seen.nsfw_score is not None
        assert 0 <= seen.nsfw_score < 0.5
        assert len(seen.labels) <= MOST_LABELS
        assert 1 <= len(seen.dominant_colors) <= MOST_COLORS
        assert all(len(colour) == 7 and int(colour[1:], 16) >= 0 for colour in seen.dominant_colors)


async def test_what_is_no_picture_is_skipped_with_a_reason(vision: LocalVision, picture: Make) -> None:
    for content in (b"", b"\0" * 100_000, b"%PDF-1.7 hello", b"<svg xmlns='x'><script/></svg>"):
        with pytest.raises(Skip, match="not a picture of a kind that is read here"):
            await vision.describe(picture(content))
        with pytest.raises(Skip, match="not a picture"):
            await vision.fingerprint(picture(content))


async def test_without_trained_data_nothing_is_read_and_health_says_so(picture: Make, pencil: Any) -> None:
    blind = LocalVision(None)
    assert "rus" not in blind.identity.model
    assert "text on pictures is not read" in blind.missing[0]
    assert "scripts/tessdata" in blind.missing[0]
    assert blind.status()["ocr"] == []
    seen = await blind.describe(picture(pencil.page(ENGLISH)))
    assert seen.ocr is None
    assert not {"text", "no text"} & set(seen.labels)
    await blind.close()


async def test_trained_data_is_looked_for_where_the_setting_says(tmp_path: Path) -> None:
    system, mine = tmp_path / "system" / "5" / "tessdata", tmp_path / "mine"
    elsewhere = (f"{tmp_path}/absent", f"{tmp_path}/system/*/tessdata")
    for folder in (system, mine):
        folder.mkdir(parents=True)
    assert find_trained_data(None, ()) is None
    assert find_trained_data(mine, elsewhere) is None
    (mine / "eng.traineddata").touch()
    english = find_trained_data(mine, elsewhere)
    assert english == TrainedData(str(mine), ("eng",))
    assert LocalVision(english).missing[0].startswith("rus text is not read")
    for language in ("rus", "eng"):
        (system / f"{language}.traineddata").touch()
    both = find_trained_data(mine, elsewhere)
    assert both == TrainedData(str(system), ("rus", "eng"))
    assert LocalVision(both).missing == ()
    assert LocalVision(both).identity != LocalVision(english).identity, "what was read with less is read anew"


async def test_damaged_trained_data_is_a_matter_for_a_person(picture: Make, pencil: Any, tmp_path: Path) -> None:
    for language in ("rus", "eng"):
        (tmp_path / f"{language}.traineddata").write_bytes(b"nonsense")
    broken = LocalVision(find_trained_data(tmp_path))
    with pytest.raises(Fatal, match=r"cannot use the trained data in .*scripts/tessdata"):
        await broken.describe(picture(pencil.logo()))
    await broken.close()
    gc.collect()  # a pipe that was left open would warn now, and warnings fail
