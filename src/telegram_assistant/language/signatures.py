"""Fingerprints of texts: posts that say nearly the same, in any channel, are one story.

MinHash over rows of three words: the share of equal numbers in two signatures is close to the share of rows that the
texts have in common. Equal bands (pieces of a signature) lead to candidates, the whole signature decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from operator import eq
from random import Random
from struct import pack, unpack
from typing import Protocol

SHINGLE = 3
BANDS, ROWS = 8, 3
SIZE = BANDS * ROWS
FEWEST_WORDS = 8  # shorter texts are equal by chance: greetings, captions
SAME_STORY = 0.5  # of the signature: half of the rows of words are the same
SAME_TEXT = 0.9  # so much alike, it is the same text again
SAME_TIME = timedelta(days=7)
_PRIME = (1 << 61) - 1
_MASK = (1 << 32) - 1
_WIDTH = 4  # bytes of a number
_FORM = f"<{SIZE}I"


def _coefficients() -> tuple[tuple[int, int], ...]:
    """Always the same: stored signatures were made with them."""
    rng = Random(20_240_715)  # noqa: S311 - no secret
    return tuple((rng.randrange(1, _PRIME), rng.randrange(_PRIME)) for _ in range(SIZE))


_COEFFICIENTS = _coefficients()


def signature(words: Sequence[str]) -> bytes:
    """Of the words of a text; empty for one too short to be told from others."""
    if len(words) < FEWEST_WORDS:
        return b""
    rows = {" ".join(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1)}
    hashes = [unpack("<Q", blake2b(row.encode(), digest_size=8).digest())[0] for row in rows]
    return pack(_FORM, *(min((a * one + b) % _PRIME for one in hashes) & _MASK for a, b in _COEFFICIENTS))


def bands(numbers: bytes) -> list[bytes]:
    """Pieces of which two near duplicates most likely have one in common, each with its place."""
    if len(numbers) != SIZE * _WIDTH:
        return []
    step = ROWS * _WIDTH
    return [bytes((at,)) + numbers[at * step : (at + 1) * step] for at in range(BANDS)]


def band_keys(numbers: bytes) -> list[str]:
    """The bands as short words for the index."""
    return [f"~{blake2b(band, digest_size=6).hexdigest()}" for band in bands(numbers)]


def likeness(one: bytes, other: bytes) -> float:
    """The share of what two texts have in common, estimated."""
    if len(one) != SIZE * _WIDTH or len(other) != len(one):
        return 0.0
    same: int = sum(map(eq, unpack(_FORM, one), unpack(_FORM, other)))
    return same / SIZE


class Told(Protocol):
    """A post, as far as it matters for stories."""

    @property
    def channel_id(self) -> int: ...
    @property
    def posted_at(self) -> datetime: ...
    @property
    def signature(self) -> bytes: ...


def same_story(one: Told, other: Told) -> bool:
    """Channels repeat their own forms (rates, weather, parts of a course): there only the same text counts."""
    alike = likeness(one.signature, other.signature)
    if alike >= SAME_TEXT:
        return True
    near = abs(one.posted_at - other.posted_at) <= SAME_TIME
    return near and one.channel_id != other.channel_id and alike >= SAME_STORY
