"""A part of a file, as a client asks for it (RFC 9110, 14)."""

from __future__ import annotations

import re

from telegram_assistant.services.problems import Problem

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def part_of(header: str | None, size: int) -> tuple[int, int] | None:
    """From and up to which byte; None: the whole. Several parts at once get the whole, as the RFC allows."""
    asked = _RANGE.fullmatch((header or "").strip())
    if asked is None or asked[0] == "bytes=-":
        return None
    first, last = asked[1], asked[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start >= end:
        raise Problem(416, f"This file has {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    return start, end
