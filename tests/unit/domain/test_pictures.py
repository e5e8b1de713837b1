"""When two pictures are the same one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.models import Classification, Ocr, Seen
from telegram_assistant.domain.pictures import (
    NEAR,
    Fingerprint,
    Verdict,
    bands,
    completed,
    distance,
    near,
    same_words,
    sharing,
)

pytestmark = pytest.mark.unit

HASHES = st.integers(0, 2**64 - 1)
MINE = Fingerprint(phash=0xF0F0_1234_5678_9ABC, width=1280, height=720, colour="#506070", plain=False)
SMALLER = replace(MINE, phash=MINE.phash ^ 0b101, width=427, height=240, colour="#526272")


def seen(kind: Classification = Classification.PHOTO, text: str | None = None) -> Seen:
    ocr = None if text is None else Ocr(text=text, engine="tesseract", confidence=0.9)
    return Seen(classification=kind, ocr=ocr, provider="local", model="pictures-1")


@given(HASHES, st.sets(st.integers(0, 63), max_size=NEAR))
def test_near_hashes_share_a_band(phash: int, flipped: set[int]) -> None:
    other = phash
    for bit in flipped:
        other ^= 1 << bit
    assert distance(phash, other) == len(flipped)
    assert set(bands(phash)) & set(bands(other))


@given(HASHES)
def test_bands_tell_their_places_apart(phash: int) -> None:
    assert len(set(bands(phash))) == 4
    assert all(0 <= band < 2**18 for band in bands(phash)), "an index of 32-bit integers is enough"


@pytest.mark.parametrize(
    "change",
    [
        {"phash": MINE.phash ^ 0b1111},
        {"width": 720, "height": 1280},
        {"colour": "#a06070"},
        {"plain": True},
    ],
    ids=["four bits", "another shape", "another colour", "plain"],
)
def test_what_differs_is_another_picture(change: dict[str, object]) -> None:
    assert near(MINE, SMALLER)
    assert not near(MINE, replace(SMALLER, **change))  # type: ignore[arg-type]  # values fit their names above
    assert sharing(MINE, replace(SMALLER, **change), seen(text="")) is Verdict.NO  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    "known,read,verdict",
    [
        (seen(text=""), None, Verdict.SHARE),
        (seen(text="Доллар 92,17"), None, Verdict.READ_FIRST),
        (seen(text="Доллар 92,17"), "доллар 92,17", Verdict.SHARE),
        (seen(text="Доллар 92,17"), "Доллар 89,34", Verdict.NO),
        (seen(text="Доллар 92,17"), "", Verdict.NO),
        (seen(Classification.PHOTO), None, Verdict.SHARE),
        (seen(Classification.SCREENSHOT), None, Verdict.NO),
        (seen(Classification.SCREENSHOT), "Доллар 92,17", Verdict.NO),
    ],
    ids=["no text", "unread", "same", "number", "nothing read", "photo", "may have text", "text that was not read"],
)
def test_a_hash_never_speaks_for_words(known: Seen, read: str | None, verdict: Verdict) -> None:
    assert sharing(MINE, SMALLER, known, read) is verdict


def test_two_readings_of_one_text() -> None:
    text = "Центральный банк сохранил ключевую ставку на уровне 16 процентов годовых"
    assert same_words(text, text.replace("ключевую", "ключевуо"))
    assert not same_words(text, text.replace("16", "15"))
    assert not same_words(text, text.replace("банк", "пляж").replace("ставку", "кошку").replace("уровне", "столе"))
    assert same_words("", " \n")


def test_a_remote_result_is_completed_with_what_was_measured() -> None:
    local = replace(seen(text="Hello"), nsfw_score=0.1, dominant_colors=("#ffffff",))
    remote = replace(seen(Classification.MEME), provider="gigachat", description="A cat")
    whole = completed(remote, local)
    assert (whole.provider, whole.description, whole.classification) == ("gigachat", "A cat", Classification.MEME)
    assert (whole.ocr, whole.nsfw_score, whole.dominant_colors) == (local.ocr, 0.1, ("#ffffff",))
    told = replace(remote, ocr=Ocr(text="Hallo", engine="gigachat", confidence=1), nsfw_score=0.0)
    assert completed(told, local).ocr == told.ocr
    assert completed(told, local).nsfw_score == 0.0
