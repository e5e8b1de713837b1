"""A file becomes a small, upright RGB picture, and that is measured: features, dominant colours, perceptual hash."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import imagehash
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from telegram_assistant.domain.models import MOST_COLORS
from telegram_assistant.domain.pictures import Features, Fingerprint, Words
from telegram_assistant.errors import Skip

_COLOUR_SIDE, _EDGE_SIDE = 256, 512
_STILL, _SHARP = 3, 40  # of 255, from one pixel to the next
_SMALLEST_SHARE, _ALIKE = 0.02, 32
_PLAIN_DETAIL = 3.0  # of 255: deviation of a picture from its own blur, below which its hash is noise
# Only formats that people send: each further one is a decoder more that a stranger can reach.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 60_000_000
LEAST_SIDE = 8
WORK_SIDE = 2048  # the longer side of what is looked at
_ORIENTATION = 0x0112
_RESIZABLE = {"L", "LA", "RGB", "RGBA", "CMYK", "YCbCr"}


def measure(picture: Decoded, words: Words | None) -> Features:
    """Everything that the rules of `domain.pictures` ask for."""
    colours = np.asarray(_small(picture.image, _COLOUR_SIDE), dtype=np.int32)
    brightest, darkest = colours.max(axis=2), colours.min(axis=2)
    grey = np.asarray(_small(picture.image, _EDGE_SIDE).convert("L"), dtype=np.int32)
    across, down = np.abs(np.diff(grey, axis=1))[:-1], np.abs(np.diff(grey, axis=0))[:, :-1]
    change = np.maximum(across, down)
    return Features(
        width=picture.width,
        height=picture.height,
        colours=_colours(colours),
        flat=_mean(change <= _STILL),
        edges=_mean(change > _SHARP),
        paper=_mean((darkest > 200) & (brightest - darkest < 30)),
        saturation=_mean((brightest - darkest) / 255),
        brightness=_mean(colours / 255),
        words=words,
        animated=picture.animated,
        transparent=picture.transparent,
    )


def dominant_colours(image: Image.Image) -> tuple[str, ...]:
    """The largest areas of colour, largest first; shades of one colour are counted together."""
    palette = _small(image, _COLOUR_SIDE // 2).quantize(16, Image.Quantize.MEDIANCUT).convert("RGB")
    pixels = np.asarray(palette, dtype=np.int32).reshape(-1, 3)
    shades, counts = np.unique(pixels, axis=0, return_counts=True)
    areas: dict[tuple[int, ...], int] = {}
    for at in np.argsort(-counts).tolist():
        shade = tuple(shades[at].tolist())
        kin = next((known for known in areas if _alike(known, shade)), shade)
        areas[kin] = areas.get(kin, 0) + int(counts[at])
    large = [shade for shade, area in areas.items() if area >= len(pixels) * _SMALLEST_SHARE]
    large.sort(key=lambda shade: -areas[shade])
    return tuple(_hex(shade) for shade in large[:MOST_COLORS])


def fingerprint(picture: Decoded) -> Fingerprint:
    """The perceptual hash and what else must agree."""
    grey = np.asarray(picture.image.convert("L").resize((32, 32), Image.Resampling.BOX), dtype=np.float64)
    rows, columns = grey.mean(axis=1, keepdims=True), grey.mean(axis=0, keepdims=True)
    detail = grey - rows - columns + grey.mean()  # what is left without gradients along the sides
    mean = picture.image.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
    bits = imagehash.phash(picture.image).hash.flatten()
    return Fingerprint(
        phash=int("".join("1" if bit else "0" for bit in bits), 2),
        width=picture.width,
        height=picture.height,
        colour=_hex(mean if isinstance(mean, tuple) else (0, 0, 0)),
        plain=float(detail.std()) < _PLAIN_DETAIL,
    )


def _small(image: Image.Image, side: int) -> Image.Image:
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.BOX)
    return small


def _colours(pixels: NDArray[np.int32]) -> int:
    coarse = pixels >> 4
    keys = coarse[..., 0] << 8 | coarse[..., 1] << 4 | coarse[..., 2]
    shares = np.sort(np.bincount(keys.ravel(), minlength=4096))[::-1] / keys.size
    return int(np.searchsorted(np.cumsum(shares), 0.95) + 1)


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) < _ALIKE


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if values.size else 0.0


def _hex(rgb: tuple[int, ...]) -> str:
    return "#" + "".join(f"{int(part):02x}" for part in rgb[:3])


@dataclass(frozen=True, slots=True)
class Decoded:
    """A picture ready to be looked at; width and height are those of the file, upright."""

    image: Image.Image
    width: int
    height: int
    animated: bool
    transparent: bool


def decode(content: bytes) -> Decoded:
    """The first frame, upright, over white where it is transparent. Raises Skip for what is no picture or too large."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damaged metadata, which is not looked at
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(content), formats=FORMATS) as image:
                _check_size(image)
                return _upright(image)
    except Skip:
        raise
    except UnidentifiedImageError as exc:
        raise Skip(f"not a picture of a kind that is read here ({', '.join(FORMATS)})") from exc
    except (Image.DecompressionBombWarning, Image.DecompressionBombError, MemoryError) as exc:
        raise Skip(f"the picture is too large to be unpacked: {str(exc) or 'not enough memory'}") from exc
    except Exception as exc:
        # Pillow's readers raise nearly anything on damaged files: SyntaxError, struct.error, KeyError, EOFError...
        raise Skip(f"the picture is damaged: {type(exc).__name__}: {str(exc)[:200]}") from exc


def _check_size(image: Image.Image) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise Skip(f"{width}x{height} pixels are too many: at most {MOST_PIXELS // 10**6} million are unpacked")
    if min(width, height) < LEAST_SIDE:
        raise Skip(f"{width}x{height} pixels show nothing: at least {LEAST_SIDE} on each side are needed")


def _upright(image: Image.Image) -> Decoded:
    width, height = image.size
    if image.getexif().get(_ORIENTATION) in {5, 6, 7, 8}:
        width, height = height, width
    animated = getattr(image, "n_frames", 1) > 1
    image.seek(0)
    image.draft("RGB", (WORK_SIDE, WORK_SIDE))  # a large JPEG is unpacked at a fraction of its size
    transparent = image.has_transparency_data
    small = _shrunk(image)
    ImageOps.exif_transpose(small, in_place=True)
    return Decoded(_over_white(small) if transparent else small.convert("RGB"), width, height, animated, transparent)


def _shrunk(image: Image.Image) -> Image.Image:
    if image.mode not in _RESIZABLE:
        image = _eight_bits(image)
    image.thumbnail((WORK_SIDE, WORK_SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return image


def _eight_bits(image: Image.Image) -> Image.Image:
    """Palettes, one bit, and the wide numbers that Pillow would cut off instead of scaling."""
    if not image.mode.startswith(("I", "F")):
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    values = np.nan_to_num(np.asarray(image, dtype=np.float32), posinf=0.0, neginf=0.0)
    low, high = (0.0, 65535.0) if image.mode.startswith("I;16") else (float(values.min()), float(values.max()))
    scaled = (values - low) * (255.0 / (high - low)) if high > low else values * 0
    grey = Image.fromarray(scaled.astype(np.uint8))
    grey.info.update(image.info)
    return grey


def _over_white(image: Image.Image) -> Image.Image:
    layer = image.convert("RGBA")
    paper = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(paper, layer).convert("RGB")
