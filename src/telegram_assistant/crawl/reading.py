"""What passes between the page reader and the processes that take pages apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

LONGEST_ANSWER = 4 * 2**20


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A page to take apart; its body comes beside it."""

    url: str
    kind: str  # media type
    charset: str  # as the server says; may be empty or wrong
    longest: int  # characters of text that are kept


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to read on a page; clean, and of limited length."""

    title: str = ""
    text: str = ""
    description: str = ""
    language: str = ""
    site: str = ""
    published: str = ""
    canonical: str = ""  # what the page says it is called, unchecked


Engine: TypeAlias = Callable[[Job, bytes], Extracted]
