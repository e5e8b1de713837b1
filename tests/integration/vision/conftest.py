"""Pictures that a test draws, and a local describer with its worker."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.domain.models import Picture
from telegram_simulator.glyphs import write

Drawn = Image.Image
FONTS = (
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
)


class Pencil:
    """Draws what the tests look at; the same every time."""

    font_path = next((path for path in FONTS if Path(path).is_file()), None)

    def page(self, lines: list[str], *, size: int = 24, colours: tuple[str, str] = ("white", "black")) -> Drawn:
        width = max(len(line) for line in lines) * size * 7 // 10 + 2 * size
        image = Image.new("RGB", (width, (len(lines) * 3 // 2 + 2) * size), colours[0])
        self.text(image, lines, size, colours[1])
        return image

    def text(self, image: Drawn, lines: list[str], size: int, colour: str) -> None:
        """With a font of this machine that has Cyrillic, or with the simulator's own letters."""
        for number, line in enumerate(lines):
            place = (size, size + number * size * 3 // 2)
            if self.font_path is None:
                write(image, place, line, size, Image.new("RGB", (1, 1), colour).getpixel((0, 0)))  # type: ignore[arg-type]  # three numbers
            else:
                ImageDraw.Draw(image).text(place, line, colour, ImageFont.truetype(self.font_path, size))

    def photo(self, seed: int, size: tuple[int, int] = (640, 426)) -> Drawn:
        """Clouds of colour at every scale, the way nature has them."""
        rng, width, height = np.random.default_rng(seed), *size
        squares = np.fft.fftfreq(height)[:, None] ** 2 + np.fft.fftfreq(width)[None, :] ** 2
        squares[0, 0] = 1
        layers = []
        for _ in range(3):
            waves = np.fft.ifft2(np.fft.fft2(rng.normal(size=(height, width))) / squares**0.5).real
            layers.append(rng.integers(90, 160) + 45 * waves / waves.std())
        pixels = np.clip(np.stack(layers, axis=2), 0, 235).astype(np.uint8)
        return Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(1))

    def meme(self, above: str, below: str) -> Drawn:
        image = self.photo(3, (960, 640))
        draw = ImageDraw.Draw(image)
        for text, top in ((above, 20), (below, 560)):
            font = ImageFont.load_default(size=60)
            draw.text((480, top), text, "white", font, anchor="ma", stroke_width=3, stroke_fill="black")
        return image

    def logo(self) -> Drawn:
        image = Image.new("RGB", (400, 400), "#f5f5f5")
        ImageDraw.Draw(image).ellipse((80, 80, 320, 320), fill="#1040c0")
        return image

    def scribble(self, seed: int, size: tuple[int, int] = (400, 300)) -> Drawn:
        rng = Random(seed)
        image = Image.new("RGB", size, "#eeeeee")
        draw = ImageDraw.Draw(image)
        for _ in range(12):
            box = sorted(rng.randrange(size[0]) for _ in range(2)), sorted(rng.randrange(size[1]) for _ in range(2))
            colour = (rng.randrange(256), rng.randrange(256), rng.randrange(256))
            draw.rectangle((box[0][0], box[1][0], box[0][1], box[1][1]), fill=colour)
        return image


def encoded(image: Drawn, kind: str = "PNG", **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def as_picture(content: bytes, mime: str = "image/png") -> Picture:
    return Picture(sha256=hashlib.sha256(content).hexdigest(), mime=mime, content=content)


@pytest.fixture(scope="session")
def pencil() -> Pencil:
    return Pencil()


@pytest.fixture(scope="session")
def encode() -> Callable[..., bytes]:
    return encoded


@pytest.fixture(scope="session")
def picture() -> Callable[..., Picture]:
    """A picture from a drawing or from bytes."""

    def make(drawn: Drawn | bytes, kind: str = "PNG", **options: Any) -> Picture:
        return as_picture(drawn if isinstance(drawn, bytes) else encoded(drawn, kind, **options))

    return make


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vision() -> AsyncIterator[LocalVision]:
    """One for a whole module: a worker takes two seconds to get ready."""
    local = LocalVision(find_trained_data())
    yield local
    await local.close()
