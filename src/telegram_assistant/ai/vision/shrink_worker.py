"""The process that makes a stranger's picture small and plain before another company sees it.

An answer's first byte says whether it is a picture or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

from PIL import Image

from telegram_assistant.ai.vision.pixels import decode
from telegram_assistant.ai.vision.shrink import NO_PICTURE, PICTURE
from telegram_assistant.errors import Skip
from telegram_assistant.processes.serving import Work, serve

MEGABYTES = 2048
LONGER_SIDE = 1280  # pixels: what vision models look at, and pay for, anyway


def shrunk(content: bytes) -> bytes:
    """A JPEG without any of the file's metadata, where a camera wrote the place and the owner."""
    image = decode(content).image
    image.thumbnail((LONGER_SIDE, LONGER_SIDE), Image.Resampling.LANCZOS)
    out = BytesIO()
    Image.frombytes("RGB", image.size, image.tobytes()).save(out, "JPEG", quality=85)
    return out.getvalue()


def run(make: Callable[[bytes], bytes]) -> None:
    """Answer with what `make` makes of a request, or why it raised Skip."""
    serve(lambda: _or_reason(make), megabytes=MEGABYTES)


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
    run(shrunk)
