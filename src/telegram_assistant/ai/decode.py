"""Bytes of a stranger become a small, upright RGB picture, or a Skip that says why not. Runs in the vision worker."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from telegram_assistant.errors import Skip

# Only formats that people send: each further one is a decoder more that a stranger can reach.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 60_000_000
LEAST_SIDE = 8
WORK_SIDE = 2048  # the longer side of what is looked at

_ORIENTATION = 0x0112
_RESIZABLE = {"L", "LA", "RGB", "RGBA", "CMYK", "YCbCr"}


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
