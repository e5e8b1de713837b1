"""Where a page of a list ended, as clients send it back: opaque, and checked when it comes."""

from __future__ import annotations

import base64
import binascii

import msgspec

from telegram_assistant.api.problems import Problem

LONGEST = 1000  # characters of a cursor


def write_cursor(*parts: str | int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def read_cursor(cursor: str, *kinds: type) -> list[str | int]:
    """The parts again, of these kinds. Raises a problem for what no list of ours has given."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        parts = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=list[str | int])
    except (ValueError, binascii.Error, msgspec.MsgspecError) as exc:
        raise _strange() from exc
    fitting = len(parts) == len(kinds) and all(type(part) is kind for part, kind in zip(parts, kinds, strict=False))
    if not fitting or any(isinstance(part, str) and "\0" in part for part in parts):
        raise _strange()
    if any(isinstance(part, int) and not -(2**63) <= part < 2**63 for part in parts):
        raise _strange()
    return parts


def _strange() -> Problem:
    return Problem(422, "cursor: is none of this list; leave it out to begin at the start")
