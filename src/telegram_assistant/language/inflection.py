"""Whether a phrase occurs in a text in any inflection: Russian by dictionary, English by stems, others as written."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from telegram_assistant.language.clean import GAP, has_cyrillic, words_of

_LATIN = re.compile("[a-z]")
_VOWEL = re.compile("[aeiouy]")
# Scripts that do not part words: there a phrase is looked up as a piece of the text.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_SAME = str.maketrans({"\u0451": "\u0435", "\u2019": "'", "\u02bc": "'"})
_CACHED_WORDS = 50_000
_CACHED_PARSES = 10_000


class Inflection:
    """Keys of words: two inflections of one word share a key."""

    def __init__(self) -> None:
        # No types of its own, and a dictionary of 15 MB: loaded when the first text comes.
        self._analyzer: Any = None
        # Words repeat from post to post, and the dictionary is slow: 6,000 words a second.
        self.keys = lru_cache(maxsize=_CACHED_WORDS)(self._keys)
        self.lemma = lru_cache(maxsize=_CACHED_WORDS)(self._lemma)
        self.parse = lru_cache(maxsize=_CACHED_PARSES)(self._parse)

    def _keys(self, word: str) -> frozenset[str]:
        folded = fold(word)
        if has_cyrillic(folded):
            return frozenset((folded, *(fold(found.normal_form) for found in self.parse(folded))))
        if _LATIN.search(folded):
            return frozenset((folded, stem(folded)))
        return frozenset((folded,))

    def _lemma(self, word: str) -> str:
        """The likeliest dictionary form."""
        folded = fold(word)
        if has_cyrillic(folded):
            return fold(self.parse(folded)[0].normal_form)
        return stem(folded) if _LATIN.search(folded) else folded

    def is_function_word(self, word: str) -> bool:
        """A Russian preposition, conjunction, particle or pronoun."""
        folded = fold(word)
        return has_cyrillic(folded) and self.parse(folded)[0].tag.POS in {"PREP", "CONJ", "PRCL", "NPRO", "INTJ"}

    def _parse(self, word: str) -> Sequence[Any]:
        """What pymorphy3 makes of a Russian word, the likeliest first."""
        if self._analyzer is None:
            self._analyzer = import_module("pymorphy3").MorphAnalyzer()
        parses: Sequence[Any] = self._analyzer.parse(word)
        return parses


class Wording:
    """A text in which phrases can be looked up."""

    def __init__(self, text: str, inflection: Inflection) -> None:
        self._inflection = inflection
        self._folded = fold(text)
        self._keys: list[frozenset[str]] = []
        for part in text.split(GAP):
            self._keys += [inflection.keys(word) for word in words_of(part)]
            self._keys.append(frozenset())  # no phrase goes across
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, keys in enumerate(self._keys):
            for key in keys:
                self._places[key].append(place)

    def places(self, phrase: str) -> list[int]:
        """Where the phrase begins, its words side by side and each in any inflection."""
        wanted = [self._inflection.keys(word) for word in words_of(phrase)]
        if not wanted:
            return []
        if _UNSPACED.search(phrase):
            found = self._folded.find(fold(phrase))
            return [] if found < 0 else [found]
        starts = sorted({place for key in wanted[0] for place in self._places.get(key, ())})
        return [start for start in starts if self._stands_at(start, wanted)]

    def has(self, phrase: str) -> bool:
        return bool(self.places(phrase))

    def _stands_at(self, start: int, wanted: Sequence[frozenset[str]]) -> bool:
        here = self._keys[start : start + len(wanted)]
        return len(here) == len(wanted) and all(a & b for a, b in zip(here, wanted, strict=True))


def fold(text: str) -> str:
    """Letters that differ only in writing are one, as the two Russian e and the apostrophes."""
    return text.casefold().translate(_SAME)


def stem(word: str) -> str:
    """A rough English stem: plural, -ed, -ing, -'s and a silent e go."""
    word = word.removesuffix("'s")
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWEL.search(rest):
            word = rest[:-1] if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "ls" else rest
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word
