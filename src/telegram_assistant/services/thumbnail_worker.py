"""The process that makes thumbnails: a stranger's picture is decoded where it can harm no other work.

A request is the width in digits, a space, and the file.
"""

from __future__ import annotations

from io import BytesIO

from PIL import Image

from telegram_assistant.ai.vision.pixels import decode
from telegram_assistant.ai.vision.shrink_worker import run

TALLEST = 3  # times its width; a longer strip is cut at the bottom
QUALITY = 80


def thumbnail(request: bytes) -> bytes:
    """A WebP of at most this width, without any of the file's metadata. Raises Skip for what is no picture."""
    digits, _, content = request.partition(b" ")
    width, image = int(digits), decode(content).image
    image = image.crop((0, 0, image.width, min(image.height, image.width * TALLEST)))
    image.thumbnail((width, width * TALLEST), Image.Resampling.LANCZOS)
    out = BytesIO()
    Image.frombytes("RGB", image.size, image.tobytes()).save(out, "WEBP", quality=QUALITY)
    return out.getvalue()


if __name__ == "__main__":
    run(thumbnail)
