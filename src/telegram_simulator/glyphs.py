"""Text on pictures. Pillow's own font has no Cyrillic, so letters that no Latin one looks like are drawn as strokes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from math import cos, radians, sin
from typing import TypeAlias

from PIL import Image, ImageDraw, ImageFont

Point: TypeAlias = tuple[float, float]
Stroke: TypeAlias = list[Point]

CAP, X_HEIGHT, ASCENT, PEN = 0.70, 0.54, 0.97, 0.075  # of Pillow's font, in parts of its size
BEARING = 0.13  # free space on each side of a letter, in parts of its height
ABOVE = 1 / 3  # room over a letter for what it may wear
SMOOTH = 4  # letters are drawn this much larger and reduced


@dataclass(slots=True, frozen=True)
class Alphabet:
    """Letters that are drawn here, and those that a Latin letter stands for."""

    strokes: dict[str, list[Stroke]]
    full_height: frozenset[str]
    lookalike: dict[int, int]

    def draws(self, run: str) -> bool:
        return run in self.strokes

    def height_of(self, char: str, size: int) -> float:
        return size * (CAP if char.isupper() or char in self.full_height else X_HEIGHT)


@cache
def alphabet() -> Alphabet:
    """Read the letters; small ones are capitals made smaller unless they have a shape of their own."""
    raw = tomllib.loads(files(__package__).joinpath("phrases", "letters.toml").read_text("utf-8"))
    strokes = {char: [_stroke(line) for line in lines] for char, lines in raw["strokes"].items()}
    small = {char.lower(): shape for char, shape in strokes.items() if char.lower() not in strokes}
    return Alphabet(
        strokes={**strokes, **small},
        full_height=frozenset(raw["full_height"]["letters"]),
        lookalike=str.maketrans(raw["lookalike"]["from"], raw["lookalike"]["to"]),
    )


def _stroke(line: str) -> Stroke:
    points: Stroke = []
    for part in line.split(";"):
        first, *rest = part.split()
        if first == "arc":
            points += _arc([float(word) for word in rest])
        else:
            numbers = [float(word) for word in (first, *rest)]
            points += zip(numbers[::2], numbers[1::2], strict=True)
    return points


def _arc(numbers: list[float]) -> Stroke:
    cx, cy, rx, ry, start, end = numbers
    angles = [radians(start + (end - start) * step / 12) for step in range(13)]
    return [(cx + rx * cos(angle), cy + ry * sin(angle)) for angle in angles]


@lru_cache(maxsize=64)
def font(size: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font; the same on every machine."""
    loaded = ImageFont.load_default(size=size)
    if not isinstance(loaded, ImageFont.FreeTypeFont):
        raise TypeError("this Pillow was built without FreeType")
    return loaded


@lru_cache(maxsize=2048)
def _letter(char: str, size: int) -> tuple[Image.Image, float]:
    """A mask of the letter, and how far to go on after it."""
    letters = alphabet()
    strokes, height = letters.strokes[char], letters.height_of(char, size)
    width = max(x for stroke in strokes for x, _ in stroke)
    across = height if height > size * X_HEIGHT else height * 1.15  # small letters are broader for their height
    advance = across * (width + 2 * BEARING)
    image = Image.new("L", ((round(advance) + 1) * SMOOTH, (round(height * 1.75) + 1) * SMOOTH))
    draw = ImageDraw.Draw(image)
    for stroke in strokes:
        points = [((x + BEARING) * across * SMOOTH, (y + ABOVE) * height * SMOOTH) for x, y in stroke]
        draw.line(points, fill=255, width=max(SMOOTH, round(size * PEN * SMOOTH)), joint="curve")
    return image.reduce(SMOOTH), advance


def _runs(text: str) -> list[str]:
    """Single drawn letters, and stretches that the font can set."""
    letters = alphabet()
    runs: list[str] = []
    for char in text.translate(letters.lookalike):
        if not runs or letters.draws(char) or letters.draws(runs[-1]):
            runs.append(char)
        else:
            runs[-1] += char
    return runs


def width_of(text: str, size: int) -> float:
    """How wide a line of text will be."""
    letters, face = alphabet(), font(size)
    return sum(_letter(run, size)[1] if letters.draws(run) else face.getlength(run) for run in _runs(text))


def write(image: Image.Image, at: Point, text: str, size: int, fill: tuple[int, int, int]) -> None:
    """Set one line of text, `at` its upper left corner."""
    letters, face, draw = alphabet(), font(size), ImageDraw.Draw(image)
    x, y = at
    for run in _runs(text):
        if letters.draws(run):
            mask, advance = _letter(run, size)
            top = y + size * ASCENT - letters.height_of(run, size) * (1 + ABOVE)
            image.paste(fill, (round(x), round(top)), mask)
            x += advance
        else:
            draw.text((x, y), run, font=face, fill=fill)
            x += face.getlength(run)


def wrapped(text: str, size: int, width: int) -> list[str]:
    """Break a text into lines that fit."""
    lines: list[str] = []
    room = 0.0
    for word in text.split():
        needed = width_of(word + " ", size)
        if lines and needed <= room:
            lines[-1] += " " + word
        else:
            lines.append(word)
            room = float(width)
        room -= needed
    return lines
