"""Text on pictures by Tesseract: where its trained data is found, and the reader that lives in the vision worker."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from telegram_assistant.domain.models import Ocr
from telegram_assistant.domain.pictures import Words
from telegram_assistant.errors import Fatal

if TYPE_CHECKING:
    from PIL.Image import Image

WANTED = ("rus", "eng")
FOLDERS = (
    f"{sys.prefix}/tessdata",  # filled by scripts/tessdata
    "/usr/share/tesseract-ocr/*/tessdata",  # Debian
    "/usr/share/tessdata",
    "/usr/share/tesseract/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
ENLARGE_BELOW = 1100  # pixels on the longer side: small letters are read better at twice their size
MOST_CHARACTERS = 20_000

_SURE, _VERY_SURE = 60.0, 80.0  # of 100
_WHITE, _LEAST_WHITE, _MOST_WHITE = 235, 0.01, 0.3


@dataclass(frozen=True, slots=True)
class TrainedData:
    """A folder with `<language>.traineddata`, and which of the wanted languages it has."""

    folder: str
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands on a picture. `ocr` is None if the time was not enough."""

    ocr: Ocr | None
    words: Words | None


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    confidence: float
    box: tuple[int, int, int, int]
    first_of_line: bool


def find_trained_data(configured: Path | None = None, elsewhere: Sequence[str] = FOLDERS) -> TrainedData | None:
    """The folder with the most of the wanted languages; of equal ones the configured first, then in order."""
    folders = [configured] if configured is not None else []
    for pattern in elsewhere:
        folders += sorted(Path("/").glob(pattern[1:]), reverse=True)
    found = [TrainedData(str(folder), _languages(folder)) for folder in folders]
    best = max(found, key=lambda data: len(data.languages), default=None)
    return best if best is not None and best.languages else None


def _languages(folder: Path) -> tuple[str, ...]:
    return tuple(language for language in WANTED if (folder / f"{language}.traineddata").is_file())


class Reader:
    """One Tesseract with its languages loaded."""

    def __init__(self, data: TrainedData, *, limit: float) -> None:
        tesserocr: Any = import_module("tesserocr")  # 20 MB of native code, wanted in the worker only
        self._tesserocr = tesserocr
        self._limit = int(limit * 1000)
        try:
            self._api = tesserocr.PyTessBaseAPI(path=data.folder, lang="+".join(data.languages), psm=tesserocr.PSM.AUTO)
        except RuntimeError as exc:
            raise Fatal(
                f"Tesseract cannot use the trained data in {data.folder}: {exc}; remove it and run scripts/tessdata"
            ) from exc
        # Both write remarks about every odd picture.
        self._api.SetVariable("debug_file", "/dev/null")
        tesserocr.set_leptonica_log_level(tesserocr.LeptLogLevel.NONE)
        self._engine = f"tesseract {tesserocr.tesseract_version().split()[1]} {'+'.join(data.languages)}"

    def read(self, image: Image) -> Reading:
        """The text, line by line, without what is probably no text at all."""
        grey = image.convert("L")
        if max(grey.size) < ENLARGE_BELOW:
            grey = grey.resize((grey.width * 2, grey.height * 2))
        reading = self._read(grey)
        if reading.ocr is None or not _LEAST_WHITE < _white(grey) < _MOST_WHITE:
            return reading
        # White words on a photo, the way memes are made: lost in the picture, plain once all else is gone.
        white = self._read(grey.point(lambda value: 0 if value > _WHITE else 255))
        return white if white.ocr is not None and len(white.ocr.text) > len(reading.ocr.text) else reading

    def close(self) -> None:
        self._api.End()

    def _read(self, grey: Image) -> Reading:
        self._api.SetImage(grey)
        if not self._api.Recognize(self._limit):
            return Reading(None, None)
        words = list(self._words())
        sure = [word for word in words if word.confidence >= _SURE and any(map(str.isalnum, word.text))]
        if not any(word.confidence >= _VERY_SURE and sum(map(str.isalpha, word.text)) >= 3 for word in sure):
            sure = []  # the odd letter seen in leaves and faces
        confidence = fmean(word.confidence for word in sure) / 100 if sure else 0.0
        ocr = Ocr(text=_lines(words, sure), engine=self._engine, confidence=round(confidence, 3))
        return Reading(ocr, _shape(sure, grey.size))

    def _words(self) -> Iterator[_Word]:
        unit = self._tesserocr.RIL
        found = self._api.GetIterator()
        if found is None:
            return
        for word in self._tesserocr.iterate_level(found, unit.WORD):
            if word.Empty(unit.WORD):
                continue
            text = word.GetUTF8Text(unit.WORD).replace("\0", "").strip()
            first = word.IsAtBeginningOf(unit.TEXTLINE)
            yield _Word(text, float(word.Confidence(unit.WORD)), word.BoundingBox(unit.WORD) or (0, 0, 0, 0), first)


def _white(grey: Image) -> float:
    return sum(grey.histogram()[_WHITE + 1 :]) / (grey.width * grey.height)


def _lines(words: Sequence[_Word], sure: Sequence[_Word]) -> str:
    kept = {id(word) for word in sure}
    lines: list[list[str]] = []
    for word in words:
        if word.first_of_line or not lines:
            lines.append([])
        if id(word) in kept:
            lines[-1].append(word.text)
    return "\n".join(" ".join(line) for line in lines if line)[:MOST_CHARACTERS]


def _shape(words: Sequence[_Word], size: tuple[int, int]) -> Words:
    width, height = size
    if not words:
        return Words()
    middles = [(word.box[1] + word.box[3]) / 2 / height for word in words]
    return Words(
        count=len(words),
        area=sum((right - left) * (bottom - top) for left, top, right, bottom in (word.box for word in words))
        / (width * height),
        height=median((word.box[3] - word.box[1]) / height for word in words),
        above=sum(middle < 1 / 3 for middle in middles),
        below=sum(middle > 2 / 3 for middle in middles),
    )
