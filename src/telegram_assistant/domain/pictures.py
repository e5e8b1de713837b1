"""When two pictures are the same one: perceptual hashes, how to find near ones, and when a result may be shared."""

from __future__ import annotations

import re
from collections import Counter
from colorsys import rgb_to_hsv
from dataclasses import dataclass, replace
from enum import StrEnum

from telegram_assistant.domain.models import MOST_LABELS, Classification, Seen

NEAR = 3  # bits of 64; with four bands, two hashes this near agree in at least one
SAME_SHAPE = 0.02  # of the ratio of the sides: scaling rounds it
SAME_COLOUR = 24  # of 255, per channel: what another compression may change
SAME_WORDS = 0.8  # shared words of two readings; a smaller copy is read with a few errors

_BANDS, _BAND_BITS = 4, 16
_WORD = re.compile(r"\w+")
NSFW_LABEL = 0.8
_NATURAL_COLOURS, _NATURAL_FLAT = 45, 0.6
_PAGE_WORDS, _PAGE_TEXT, _PAGE_PAPER = 60, 0.12, 0.5
_CAPTION_WORDS, _CAPTION_HEIGHT, _CAPTION_SHARE = 25, 0.03, 0.85
_SCREEN_WORDS, _SCREEN_ON_LIGHT, _SCREEN_ON_PHONE, _PHONE = 30, 12, 5, 1.7
_HUES = ((15, "red"), (40, "orange"), (68, "yellow"), (165, "green"), (195, "cyan"), (260, "blue"), (292, "purple"))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What reading a picture found, by shape. Heights and areas are shares of the picture's."""

    count: int = 0
    area: float = 0.0
    height: float = 0.0  # of the middle word, by height
    above: int = 0  # in the upper third
    below: int = 0  # in the lower third


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Measures of a small copy; shares are from 0 to 1. `words` is None where nothing could be read."""

    width: int
    height: int
    colours: int  # of 4096, those that make up 95 % of the picture
    flat: float  # share without any change from one pixel to the next
    edges: float  # share with a sharp change
    paper: float  # share that is nearly white
    saturation: float
    brightness: float
    words: Words | None = None
    animated: bool = False
    transparent: bool = False


def classify(features: Features) -> Classification:
    """The first that fits. Photos have many colours and few flat areas; all else is drawn or written."""
    words = features.words
    if features.colours >= _NATURAL_COLOURS and features.flat < _NATURAL_FLAT:
        return Classification.MEME if words and _captioned(words) else Classification.PHOTO
    if words is None:
        return _unread(features)
    if words.count >= _PAGE_WORDS and words.area >= _PAGE_TEXT and features.paper >= _PAGE_PAPER:
        return Classification.DOCUMENT
    if features.paper < _PAGE_PAPER and _captioned(words):
        return Classification.MEME
    if _is_screen(features, words):
        return Classification.SCREENSHOT
    return Classification.INFOGRAPHIC if words.count >= 3 else Classification.OTHER


def labels(features: Features, kind: Classification, colours: tuple[str, ...], nsfw: float | None) -> tuple[str, ...]:
    """Plain facts that can be searched for."""
    found = [kind.value]
    if features.words is not None:
        found.append("text" if features.words.count else "no text")
    found.append(_orientation(features))
    if features.brightness < 0.25:
        found.append("dark")
    elif features.brightness > 0.8:
        found.append("bright")
    if features.saturation < 0.02:
        found.append("greyscale")
    found += [word for word, holds in (("animated", features.animated), ("transparent", features.transparent)) if holds]
    if nsfw is not None and nsfw >= NSFW_LABEL:
        found.append("nsfw")
    found += [colour_name(colour) for colour in colours]
    return tuple(dict.fromkeys(found))[:MOST_LABELS]


def colour_name(colour: str) -> str:
    """A word for #rrggbb."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, saturation, value = rgb_to_hsv(red, green, blue)
    if value < 0.15:
        return "black"
    if saturation < 0.15:
        return "white" if value > 0.88 else "grey"
    degrees = hue * 360
    if 15 <= degrees < 45 and value < 0.65:
        return "brown"
    name = next((name for limit, name in _HUES if degrees < limit), "pink" if degrees < 345 else "red")
    return "pink" if name == "red" and saturation < 0.5 and value > 0.7 else name


def _captioned(words: Words) -> bool:
    """A few large words, nearly all at the top or at the bottom; at the bottom alone they are a photo's subtitle."""
    at_the_ends = words.above > 0 and words.above + words.below >= words.count * _CAPTION_SHARE
    return words.count <= _CAPTION_WORDS and words.height >= _CAPTION_HEIGHT and at_the_ends


def _is_screen(features: Features, words: Words) -> bool:
    enough = _SCREEN_ON_LIGHT if features.paper >= _PAGE_PAPER else _SCREEN_WORDS
    if features.height / features.width >= _PHONE:
        enough = _SCREEN_ON_PHONE
    return words.count >= enough


def _unread(features: Features) -> Classification:
    """Without OCR only the dense fine edges of text tell that there is some."""
    if features.paper >= _PAGE_PAPER and features.edges >= 0.12 and features.saturation < 0.1:
        return Classification.DOCUMENT
    return Classification.SCREENSHOT if features.paper >= 0.4 and features.edges >= 0.05 else Classification.OTHER


def _orientation(features: Features) -> str:
    ratio = features.width / features.height
    if 0.95 <= ratio <= 1.05:
        return "square"
    return "landscape" if ratio > 1 else "portrait"
