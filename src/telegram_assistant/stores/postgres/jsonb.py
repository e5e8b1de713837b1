"""Values as PostgreSQL's JSON takes them: it has no NUL, and strangers write what they like."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # after an odd backslash it is a NUL, else just these letters


def as_jsonb(value: Any) -> str:
    return _NUL.sub(r"\1", msgspec.json.encode(value).decode())
