"""The process that makes a stranger's picture small and plain before another company sees it.

Files come in on stdin and JPEGs leave on stdout, four bytes of length first; an answer's first byte says whether it is
a picture or the reason why there is none.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO

from PIL import Image

from telegram_assistant.ai.decode import decode
from telegram_assistant.ai.shrink import NO_PICTURE, PICTURE
from telegram_assistant.errors import Skip

MOST_MEMORY = 2 * 2**30
LONGER_SIDE = 1280  # pixels: what vision models look at, and pay for, anyway


def shrunk(content: bytes) -> bytes:
    """A JPEG without any of the file's metadata, where a camera wrote the place and the owner."""
    image = decode(content).image
    image.thumbnail((LONGER_SIDE, LONGER_SIDE), Image.Resampling.LANCZOS)
    out = BytesIO()
    Image.frombytes("RGB", image.size, image.tobytes()).save(out, "JPEG", quality=85)
    return out.getvalue()


def serve(files: BinaryIO, answers: BinaryIO, make: Callable[[bytes], bytes]) -> None:
    while len(header := files.read(4)) == 4:
        content = files.read(int.from_bytes(header, "big"))
        try:
            answer = PICTURE + make(content)
        except Skip as exc:
            answer = NO_PICTURE + str(exc).encode()
        except MemoryError:
            answer = NO_PICTURE + b"the picture needs more memory than it may have"
        answers.write(len(answer).to_bytes(4, "big") + answer)
        answers.flush()


def run(make: Callable[[bytes], bytes]) -> None:
    """Answer until stdin ends: with what `make` makes of a request, or why it raised Skip."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not mix with the answers
    serve(sys.stdin.buffer, answers, make)


if __name__ == "__main__":
    run(shrunk)
