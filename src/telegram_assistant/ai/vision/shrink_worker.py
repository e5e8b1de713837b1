"""The process that makes a stranger's picture small and plain, for another company's model or for a page.

`python -m telegram_assistant.ai.vision.shrink_worker shrink|thumbnail`. An answer's first byte says whether it is a
picture or the reason why there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import BytesIO

from PIL import Image

from telegram_assistant.ai.vision.pixels import decode
from telegram_assistant.ai.vision.shrink import NO_PICTURE, PICTURE
from telegram_assistant.errors import Skip
from telegram_assistant.processes.serving import Work, serve

MEGABYTES = 2048
LONGER_SIDE = 1280  # pixels: what vision models look at, and pay for, anyway
TALLEST = 3  # times the width of a thumbnail; a longer strip is cut at the bottom
QUALITY = 80


def shrunk(content: bytes) -> bytes:
    """A JPEG without any of the file's metadata, where a camera wrote the place and the owner."""
    image = decode(content).image
    image.thumbnail((LONGER_SIDE, LONGER_SIDE), Image.Resampling.LANCZOS)
    out = BytesIO()
    Image.frombytes("RGB", image.size, image.tobytes()).save(out, "JPEG", quality=85)
    return out.getvalue()


def thumbnail(request: bytes) -> bytes:
    """A WebP, without any of the file's metadata. A request is the width in digits, a space, and the file."""
    digits, _, content = request.partition(b" ")
    width, image = int(digits), decode(content).image
    image = image.crop((0, 0, image.width, min(image.height, image.width * TALLEST)))
    image.thumbnail((width, width * TALLEST), Image.Resampling.LANCZOS)
    out = BytesIO()
    Image.frombytes("RGB", image.size, image.tobytes()).save(out, "WEBP", quality=QUALITY)
    return out.getvalue()


def _or_reason(make: Callable[[bytes], bytes]) -> Work:
    def work(request: bytes) -> bytes:
        try:
            return PICTURE + make(request)
        except Skip as exc:
            return NO_PICTURE + str(exc).encode()
        except MemoryError:
            return NO_PICTURE + b"the picture needs more memory than it may have"

    return work


if __name__ == "__main__":
    make = {"shrink": shrunk, "thumbnail": thumbnail}[sys.argv[1]]
    serve(lambda: _or_reason(make), megabytes=MEGABYTES)
