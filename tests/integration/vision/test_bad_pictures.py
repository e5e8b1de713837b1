"""Files that strangers send: each ends as a small upright picture or as a Skip with its reason, and within bounds."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from telegram_assistant.ai.vision.pixels import MOST_PIXELS, WORK_SIDE, decode, dominant_colours, fingerprint, measure
from telegram_assistant.errors import Skip

pytestmark = pytest.mark.integration

Encode = Callable[..., bytes]
RED, BLUE = (200, 30, 30), (30, 30, 200)


def halves(size: tuple[int, int] = (60, 40)) -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", size, RED)
    image.paste(BLUE, (size[0] // 2, 0, *size))
    return image


def looks_like(image: Image.Image, x: float, y: float, colour: tuple[int, int, int]) -> bool:
    at = image.getpixel((int(image.width * x), int(image.height * y)))
    assert isinstance(at, tuple)
    return all(abs(a - b) < 25 for a, b in zip(at, colour, strict=True))


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_header(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def test_a_bomb_is_not_unpacked() -> None:
    packed = zlib.compress(bytes(50_000_000))
    for width, height in ((30_000, 30_000), (9_000, 9_000), (2**31 - 1, 2**31 - 1), (MOST_PIXELS + 1, 1)):
        bomb = png_header(width, height) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
        with pytest.raises(Skip, match=r"too large|too many|damaged"):
            decode(bomb)


def test_a_bomb_in_the_text_of_a_png() -> None:
    text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(200_000_000)))
    with pytest.raises(Skip):
        decode(png_header(10, 10) + text + chunk(b"IEND", b""))


def test_what_is_too_small_shows_nothing(encode: Encode) -> None:
    with pytest.raises(Skip, match="1x1 pixels show nothing"):
        decode(encode(Image.new("RGB", (1, 1))))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_a_file_that_ends_too_early(encode: Encode, pencil: Any, kind: str) -> None:
    whole = encode(pencil.scribble(1), kind)
    assert decode(whole).width == 400
    for share in (0.9, 0.5, 0.1):
        with pytest.raises(Skip, match=r"damaged|not a picture"):
            decode(whole[: int(len(whole) * share)])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_damaged_bytes_never_do_more_than_skip(encode: Encode, pencil: Any, kind: str) -> None:
    whole = encode(pencil.scribble(2, (120, 90)), kind)
    rng = Random(f"damage {kind}")
    reasons: list[str] = []
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 12)):
            # Headers are where readers go wrong, so they are hit as often as all the rest.
            at = rng.randrange(min(64, len(damaged))) if rng.random() < 0.5 else rng.randrange(len(damaged))
            damaged[at] = rng.choice((0, 255, rng.randrange(256)))
        try:
            side = max(decode(bytes(damaged)).image.size)
        except Skip as skip:
            reasons.append(str(skip))
        else:
            assert side <= WORK_SIDE
    assert reasons
    assert max(map(len, reasons)) < 400


def test_other_formats_are_not_even_tried(encode: Encode) -> None:
    for kind in ("PPM", "TGA", "PCX", "ICO", "PDF"):
        with pytest.raises(Skip, match="not a picture of a kind"):
            decode(encode(halves(), kind))
    with pytest.raises(Skip, match="not a picture"):
        decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_what_moves_the_first_frame_is_seen(encode: Encode, kind: str) -> None:
    frames = [halves(), Image.new("RGB", (60, 40), "green"), Image.new("RGB", (60, 40), "white")]
    seen = decode(encode(frames[0], kind, save_all=True, append_images=frames[1:]))
    assert seen.animated
    assert looks_like(seen.image, 0.25, 0.5, RED)
    assert not decode(encode(frames[0], kind)).animated


def test_a_photo_on_its_side_is_put_upright(encode: Encode) -> None:
    for orientation, corner in ((1, (0.25, 0.5)), (3, (0.75, 0.5)), (6, (0.5, 0.25)), (8, (0.5, 0.75))):
        exif = Image.Exif()
        exif[0x0112] = orientation
        seen = decode(encode(halves(), "JPEG", exif=exif.tobytes(), quality=95))
        assert (seen.width, seen.height) == ((60, 40) if orientation < 5 else (40, 60))
        assert seen.image.size == (seen.width, seen.height)
        assert looks_like(seen.image, *corner, RED)


def test_colours_survive_every_mode(encode: Encode) -> None:
    image = halves()
    for content in (
        encode(image.convert("CMYK"), "JPEG", quality=95),
        encode(image.convert("CMYK"), "TIFF"),
        encode(image.quantize(4)),
        encode(image.convert("RGBA")),
        encode(image, "JPEG", quality=95, progressive=True),
    ):
        seen = decode(content)
        assert seen.image.mode == "RGB"
        assert looks_like(seen.image, 0.25, 0.5, RED)
        assert looks_like(seen.image, 0.75, 0.5, BLUE)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_and_not_cut_off(encode: Encode, kind: str) -> None:
    ramp = np.linspace(0, 65535, 64, dtype=np.uint16)[None, :].repeat(64, axis=0)
    seen = decode(encode(Image.fromarray(ramp), kind)).image
    assert looks_like(seen, 0.01, 0.5, (0, 0, 0))
    assert looks_like(seen, 0.5, 0.5, (128, 128, 128))
    assert looks_like(seen, 0.99, 0.5, (255, 255, 255))


@pytest.mark.parametrize("values", [np.float32, np.int32])
def test_wide_numbers_fill_the_range(encode: Encode, values: type) -> None:
    ramp: NDArray[Any] = np.linspace(-5, 1_000_000, 64)[None, :].repeat(64, axis=0).astype(values)
    if values is np.float32:
        ramp[0, 0], ramp[1, 1] = np.nan, np.inf
    seen = decode(encode(Image.fromarray(ramp), "TIFF")).image
    assert looks_like(seen, 0.5, 0.5, (128, 128, 128))
    assert looks_like(seen, 0.99, 0.5, (255, 255, 255))


def test_one_bit_and_transparency_stand_on_white(encode: Encode) -> None:
    assert looks_like(decode(encode(Image.new("1", (20, 20), 1))).image, 0.5, 0.5, (255, 255, 255))
    clear = Image.new("RGBA", (40, 40), (200, 30, 30, 0))
    clear.paste((*RED, 255), (0, 0, 20, 40))
    for content in (encode(clear), encode(clear, "WEBP", lossless=True), encode(clear.convert("LA"))):
        seen = decode(content)
        assert seen.transparent
        assert looks_like(seen.image, 0.75, 0.5, (255, 255, 255))


def test_large_pictures_become_small(encode: Encode) -> None:
    seen = decode(encode(halves((6000, 4000)), "JPEG"))
    assert (seen.width, seen.height) == (6000, 4000)
    assert max(seen.image.size) <= WORK_SIDE
    assert looks_like(seen.image, 0.25, 0.5, RED)


def test_strips_can_be_measured(encode: Encode) -> None:
    for size in ((8, 8), (20_000, 8), (8, 20_000), (WORK_SIDE * 4, 9)):
        seen = decode(encode(halves(size)))
        features = measure(seen, None)
        assert 0 <= features.flat <= 1
        assert (features.width, features.height) == size
        assert 0 <= fingerprint(seen).phash < 2**64
        assert dominant_colours(seen.image)


def test_zeros_in_names_and_comments_stay_where_they_are(encode: Encode) -> None:
    exif = Image.Exif()
    exif[0x010E] = "evil\0name"
    assert decode(encode(halves(), "JPEG", exif=exif.tobytes(), comment=b"\0" * 500)).width == 60
    assert decode(encode(halves()) + b"\0" * 10_000).width == 60
