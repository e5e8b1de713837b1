"""Photos with words on them, drawn from a few values when a client downloads them: the same bytes every time."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from random import Random
from typing import TypeAlias

from PIL import Image, ImageDraw, ImageOps

from telegram_simulator.glyphs import width_of, wrapped, write

Colour: TypeAlias = tuple[int, int, int]
STYLES = ("card", "chart", "screen", "meme")
SHAPES = ((640, 360), (480, 480), (480, 600), (720, 405))
LENGTHS = (20_000, 28_000)  # a photo's size in bytes lies between these, and is known before it is drawn
QUALITIES = (60, 40, 20, 5)  # the first that fits the length
WHITE: Colour = (250, 250, 250)
INK: Colour = (28, 30, 38)
PAPER: Colour = (243, 243, 238)
PALETTES: tuple[tuple[Colour, Colour], ...] = (
    ((22, 34, 66), (64, 110, 180)),
    ((60, 16, 36), (190, 70, 60)),
    ((12, 54, 46), (60, 150, 110)),
    ((48, 28, 80), (150, 90, 190)),
    ((30, 30, 34), (110, 112, 120)),
    ((90, 50, 10), (222, 150, 50)),
)


@dataclass(slots=True, frozen=True)
class Picture:
    """What a photo will show."""

    style: str
    lines: tuple[str, ...]  # a headline and what stands under it; of a meme the upper and the lower words
    seed: int
    width: int
    height: int
    length: int

    def __call__(self) -> bytes:
        """Draw it."""
        rng = Random(self.seed)
        image = PAINTERS[self.style](self, rng)
        for quality in QUALITIES:
            out = BytesIO()
            image.save(out, "JPEG", quality=quality)
            if out.tell() + 4 <= self.length:
                return padded(out.getvalue(), self.length)
        raise ValueError(f"a {self.width}x{self.height} photo does not fit into {self.length} bytes")


def plan_picture(rng: Random, lines: tuple[str, ...], style: str) -> Picture:
    """Choose the shape and the size of a photo, without drawing it."""
    width, height = SHAPES[int(rng.random() * len(SHAPES))]
    return Picture(style, lines, rng.getrandbits(32), width, height, rng.randint(*LENGTHS))


def padded(jpeg: bytes, length: int) -> bytes:
    """Fill a JPEG to exactly `length` bytes with comments, which every reader skips."""
    missing = length - len(jpeg)
    comments = bytearray()
    while missing:
        # A comment takes at least 4 bytes, so never leave 1 to 3 for the next.
        size = missing if missing <= 65_535 else min(65_535, missing - 4)
        if size < 4:
            raise ValueError(f"cannot fill {size} bytes with a comment")
        comments += b"\xff\xfe" + (size - 2).to_bytes(2, "big") + b" " * (size - 4)
        missing -= size
    return jpeg[:2] + bytes(comments) + jpeg[2:]


def _backdrop(picture: Picture, rng: Random) -> Image.Image:
    dark, light = rng.choice(PALETTES)
    size = (picture.width, picture.height)
    if rng.random() < 0.3:
        return Image.new("RGB", size, dark)
    ramp = Image.linear_gradient("L").resize(size)
    return ImageOps.colorize(ramp, dark, light)


def _paragraph(
    image: Image.Image, box: tuple[int, int, int, int], text: str, size: int, fill: Colour, *, centred: bool = False
) -> int:
    """Set a text into a box, as many lines as fit; gives the y below it."""
    left, top, right, bottom = box
    step = int(size * 1.35)
    for line in wrapped(text, size, right - left):
        if top + step > bottom:
            break
        x = left + (right - left - width_of(line, size)) / 2 if centred else left
        write(image, (x, top), line, size, fill)
        top += step
    return top


def _card(picture: Picture, rng: Random) -> Image.Image:
    image = _backdrop(picture, rng)
    w, h = image.size
    ImageDraw.Draw(image).rectangle((w // 14, h // 8, w // 14 + 60, h // 8 + 6), fill=WHITE)
    size = w // 15
    below = _paragraph(image, (w // 14, h // 6, w - w // 14, h - h // 5), picture.lines[0], size, WHITE)
    for line in picture.lines[1:]:
        below = _paragraph(image, (w // 14, below + 8, w - w // 14, h - 8), line, w // 28, WHITE)
    return image


def _chart(picture: Picture, rng: Random) -> Image.Image:
    image = Image.new("RGB", (picture.width, picture.height), PAPER)
    draw = ImageDraw.Draw(image)
    w, h = image.size
    _, colour = rng.choice(PALETTES)
    below = _paragraph(image, (24, 14, w - 24, h // 3), picture.lines[0], w // 24, INK)
    left, top, right, bottom = 60, below + 14, w - 30, h - 40
    values = [rng.uniform(20, 60)]
    values.extend(max(2.0, values[-1] + rng.gauss(1, 9)) for _ in range(11))
    scale = (bottom - top) / (max(values) * 1.1)
    for step in range(5):
        level = bottom - (bottom - top) * step // 4
        draw.line((left, level, right, level), fill=(210, 210, 205))
        write(image, (12, level - 10), str(round(max(values) * 1.1 * step / 4)), 16, INK)
    slot = (right - left) / len(values)
    heights = [(left + slot * i, bottom - v * scale) for i, v in enumerate(values)]
    if rng.random() < 0.5:
        for x, y in heights:
            draw.rectangle((x + slot * 0.15, y, x + slot * 0.85, bottom), fill=colour)
    else:
        draw.line([(x + slot / 2, y) for x, y in heights], fill=colour, width=4, joint="curve")
    return image


def _screen(picture: Picture, rng: Random) -> Image.Image:
    """Looks like a screenshot of a chat."""
    image = Image.new("RGB", (picture.width, picture.height), (228, 234, 240))
    draw = ImageDraw.Draw(image)
    w, h = image.size
    draw.rectangle((0, 0, w, 44), fill=rng.choice(PALETTES)[0])
    write(image, (16, 8), picture.lines[0][:34], 20, WHITE)
    top, size = 58, w // 26
    for number, line in enumerate((*picture.lines[1:], picture.lines[0])):
        left = 16 if number % 2 == 0 else w // 5
        right = left + w * 3 // 4
        lines = wrapped(line, size, right - left - 24)[:5]
        bottom = top + 16 + int(size * 1.35) * len(lines)
        if bottom > h - 8:
            break
        draw.rounded_rectangle((left, top, right, bottom), 10, fill=WHITE if number % 2 == 0 else (214, 240, 205))
        _paragraph(image, (left + 12, top + 6, right - 12, bottom), line, size, INK)
        top = bottom + 12
    write(image, (w - 70, 12), f"{rng.randrange(24):02}:{rng.randrange(60):02}", 18, WHITE)
    return image


def _meme(picture: Picture, rng: Random) -> Image.Image:
    image = _backdrop(picture, rng)
    draw = ImageDraw.Draw(image)
    w, h = image.size
    draw.ellipse((w * 0.36, h * 0.34, w * 0.64, h * 0.66), fill=rng.choice(PALETTES)[1], outline=WHITE, width=4)
    for eye in (0.44, 0.54):
        draw.ellipse((w * eye, h * 0.43, w * (eye + 0.02), h * 0.47), fill=INK)
    draw.arc((w * 0.43, h * 0.48, w * 0.57, h * 0.60), *rng.choice(((10, 170), (190, 350))), fill=INK, width=4)
    size = w // 16
    _paragraph(image, (10, 12, w - 10, h // 3), picture.lines[0], size, WHITE, centred=True)
    _paragraph(image, (10, h - h // 4, w - 10, h), picture.lines[-1], size, WHITE, centred=True)
    return image


PAINTERS = {"card": _card, "chart": _chart, "screen": _screen, "meme": _meme}
