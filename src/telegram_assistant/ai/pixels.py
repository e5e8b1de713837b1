"""Measures of a decoded picture: features, dominant colours, perceptual hash. Runs in the vision worker."""

from __future__ import annotations

from typing import Any

import imagehash
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from telegram_assistant.ai.decode import Decoded
from telegram_assistant.domain.picture_kinds import Features, Words
from telegram_assistant.domain.pictures import Fingerprint
from telegram_assistant.domain.understanding import MOST_COLORS

_COLOUR_SIDE, _EDGE_SIDE = 256, 512
_STILL, _SHARP = 3, 40  # of 255, from one pixel to the next
_SMALLEST_SHARE, _ALIKE = 0.02, 32
_PLAIN_DETAIL = 3.0  # of 255: deviation of a picture from its own blur, below which its hash is noise


def measure(picture: Decoded, words: Words | None) -> Features:
    """Everything that the rules of `domain.picture_kinds` ask for."""
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
