"""What passes between the page reader and the processes that take pages apart."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

import msgspec

SIZES = struct.Struct("!II")  # of a job and of its body
SIZE = struct.Struct("!I")  # of an answer; 0: ready to begin
LONGEST_ANSWER = 4 * 2**20


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A page to take apart; its body follows as bytes."""

    url: str
    kind: str  # media type
    charset: str  # as the server says; may be empty or wrong
    longest: int  # characters of text that are kept
    seconds: float  # of processor time, after which the process gives up by itself


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
