"""When two pictures are the same one: perceptual hashes, how to find near ones, and when a result may be shared."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from telegram_assistant.domain.understanding import Classification, Seen

NEAR = 3  # bits of 64; with four bands, two hashes this near agree in at least one
SAME_SHAPE = 0.02  # of the ratio of the sides: scaling rounds it
SAME_COLOUR = 24  # of 255, per channel: what another compression may change
SAME_WORDS = 0.8  # shared words of two readings; a smaller copy is read with a few errors

_BANDS, _BAND_BITS = 4, 16
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What is left of a picture after scaling and recompression."""

    phash: int  # 64 bits, unsigned
    width: int
    height: int
    colour: str  # the mean, #rrggbb: the hash knows only light and dark
    plain: bool  # one colour or a mere gradient: its hash is noise


@dataclass(frozen=True, slots=True)
class Known:
    """A picture that has a result."""

    sha256: str
    fingerprint: Fingerprint
    seen: Seen


class Verdict(StrEnum):
    """Whether another picture's result holds for this one too."""

    SHARE = "share"
    READ_FIRST = "read_first"  # both must say the same, so this one has to be read
    NO = "no"


def distance(one: int, other: int) -> int:
    """Bits that differ."""
    return (one ^ other).bit_count()


def bands(phash: int) -> tuple[int, ...]:
    """Four keys, each with its position. Hashes within `NEAR` bits share one, so equality finds every candidate."""
    mask = (1 << _BAND_BITS) - 1
    return tuple(place << _BAND_BITS | phash >> (_BAND_BITS * place) & mask for place in range(_BANDS))


def to_bigint(phash: int) -> int:
    """As a signed number of 64 bits, which is what databases have."""
    return phash - (1 << 64) if phash >> 63 else phash


def from_bigint(stored: int) -> int:
    return stored % (1 << 64)


def near(one: Fingerprint, other: Fingerprint) -> bool:
    """They look the same, as far as a small grey copy can tell."""
    if one.plain or other.plain or distance(one.phash, other.phash) > NEAR:
        return False
    ratio = (one.width * other.height) / (one.height * other.width)
    if abs(ratio - 1) > SAME_SHAPE:
        return False
    return all(abs(a - b) <= SAME_COLOUR for a, b in zip(_rgb(one.colour), _rgb(other.colour), strict=True))


def sharing(mine: Fingerprint, other: Fingerprint, seen: Seen, read: str | None = None) -> Verdict:
    """Whether `seen`, the result of `other`, may stand for `mine`; `read` is the text on mine, None while unread.

    Two cards of one template that differ in a number alone are 0 to 4 bits apart, less than a picture and its smaller
    copy: so a hash never speaks for words.
    """
    if not near(mine, other):
        return Verdict.NO
    if seen.ocr is None:
        return Verdict.SHARE if seen.classification is Classification.PHOTO else Verdict.NO
    if not seen.ocr.text:
        return Verdict.SHARE
    if read is None:
        return Verdict.READ_FIRST
    return Verdict.SHARE if same_words(read, seen.ocr.text) else Verdict.NO


def same_words(one: str, other: str) -> bool:
    """Two readings of one text: nearly all words, and every number."""
    mine, its = Counter(_WORD.findall(one.casefold())), Counter(_WORD.findall(other.casefold()))
    if _numbers(mine) != _numbers(its):
        return False
    most = max(mine.total(), its.total())
    return most == 0 or (mine & its).total() / most >= SAME_WORDS


def completed(seen: Seen, local: Seen) -> Seen:
    """What a remote model did not say, from what was measured here."""
    return replace(
        seen,
        ocr=local.ocr if seen.ocr is None else seen.ocr,
        nsfw_score=local.nsfw_score if seen.nsfw_score is None else seen.nsfw_score,
        dominant_colors=seen.dominant_colors or local.dominant_colors,
    )


def _numbers(words: Counter[str]) -> Counter[str]:
    return Counter({word: count for word, count in words.items() if any(char.isdigit() for char in word)})


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
