"""Fingerprints of texts: posts that say nearly the same, in whatever channel, are one story.

MinHash over rows of three words: the share of equal numbers in two signatures is close to the share of rows that the
texts have in common. Equal bands (pieces of a signature) lead to candidates, the whole signature decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from random import Random
from struct import unpack
from typing import Protocol

SHINGLE = 3
BANDS, ROWS = 8, 3
SIZE = BANDS * ROWS
FEWEST_WORDS = 8  # shorter texts are equal by chance: greetings, captions
SAME_STORY = 0.5  # of the signature: half of the rows of words are the same
SAME_TEXT = 0.9  # so much alike, it is the same text again
SAME_TIME = timedelta(days=7)
_PRIME = (1 << 61) - 1
_MASK = (1 << 31) - 1


def _coefficients() -> tuple[tuple[int, int], ...]:
    """Always the same: stored signatures were made with them."""
    rng = Random(20_240_715)  # noqa: S311 - no secret
    return tuple((rng.randrange(1, _PRIME), rng.randrange(_PRIME)) for _ in range(SIZE))


_COEFFICIENTS = _coefficients()


def signature(words: Sequence[str]) -> tuple[int, ...]:
    """Of the words of a text; empty for one too short to be told from others."""
    if len(words) < FEWEST_WORDS:
        return ()
    rows = {" ".join(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1)}
    hashes = [unpack("<Q", blake2b(row.encode(), digest_size=8).digest())[0] for row in rows]
    return tuple(min((a * one + b) % _PRIME for one in hashes) & _MASK for a, b in _COEFFICIENTS)


def bands(numbers: Sequence[int]) -> tuple[str, ...]:
    """What two near duplicates most likely have one of in common; short words for the index."""
    return tuple(
        f"~{at:x}{blake2b(repr(tuple(numbers[at * ROWS : (at + 1) * ROWS])).encode(), digest_size=5).hexdigest()}"
        for at in range(BANDS if numbers else 0)
    )


def likeness(one: Sequence[int], other: Sequence[int]) -> float:
    """The share of what two texts have in common, estimated."""
    if not one or len(one) != len(other):
        return 0.0
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


class Told(Protocol):
    """A post, as far as it matters for stories."""

    @property
    def channel_id(self) -> int: ...
    @property
    def posted_at(self) -> datetime: ...
    @property
    def signature(self) -> Sequence[int]: ...


def same_story(one: Told, other: Told) -> bool:
    """Channels repeat their own forms (rates, weather, parts of a course): there only the same text counts."""
    alike = likeness(one.signature, other.signature)
    if alike >= SAME_TEXT:
        return True
    near = abs(one.posted_at - other.posted_at) <= SAME_TIME
    return near and one.channel_id != other.channel_id and alike >= SAME_STORY
