"""A text as one vector: what it means in any language (USE), and which rare words it has.

USE alone finds a paraphrase and a translation; hashed lemmas beside it find the same names and terms. Words in Cyrillic
and others have dimensions of their own, so that chance meetings do not disturb a search across languages. Measured:
decision 0009.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from telegram_assistant.ai.local_models import USE_SIZE, Matrix, Models, Vector, unit
from telegram_assistant.language.clean import has_cyrillic, pieces_of, plain, words_of

_HASHED = 128  # dimensions for each of the two alphabets
SIZE = USE_SIZE + 2 * _HASHED
_MEANING, _WORDS = 0.7**0.5, 0.3**0.5
_PIECE = 1_500  # characters; whole posts are better than their pieces, up to about this length
_COMMON = 5e-4
_LANGUAGES = 8  # in USE's vocabulary most languages share the ranks, so a word is so much commoner in its own
_SLOTS = 2  # dimensions that a word takes


class TextVectors:
    """Vectors for the index."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._slots = lru_cache(maxsize=50_000)(_slots_of)

    def of(self, texts: Sequence[str]) -> Matrix:
        """A unit vector for each; a text without words gets that of the empty text, for a vector is needed."""
        if not texts:
            return np.zeros((0, SIZE), np.float32)
        cleaned = [plain(text) or text.strip() for text in texts]
        meaning, words = self._meaning(cleaned), np.stack([self._hashed(text) for text in cleaned])
        return unit(np.hstack([_MEANING * meaning, _WORDS * words]))

    def _meaning(self, texts: Sequence[str]) -> Matrix:
        """Long texts are the mean of their pieces."""
        pieces = [pieces_of(text, _PIECE) or [text] for text in texts]
        vectors = self._models.sentence_vectors([piece for parts in pieces for piece in parts])
        ends = np.cumsum([len(parts) for parts in pieces])
        return unit(np.stack([part.mean(axis=0) for part in np.split(vectors, ends[:-1])]))

    def _hashed(self, text: str) -> Vector:
        vector = np.zeros(2 * _HASHED, np.float32)
        for lemma in {self._models.inflection.lemma(word) for word in words_of(text)}:
            if len(lemma) < 3 and not lemma.isdigit():
                continue
            share = self._models.share(lemma) * (1 if has_cyrillic(lemma) else _LANGUAGES)
            weight = _COMMON / (_COMMON + share)
            for slot, sign in self._slots(lemma):
                vector[slot] += sign * weight
        return unit(vector)


def _slots_of(lemma: str) -> tuple[tuple[int, int], ...]:
    digest = hashlib.blake2b(lemma.encode(), digest_size=4 * _SLOTS).digest()
    base = 0 if has_cyrillic(lemma[0]) else _HASHED
    numbers = (int.from_bytes(digest[4 * at : 4 * at + 4], "little") for at in range(_SLOTS))
    return tuple((base + number % _HASHED, 1 if number >> 16 & 1 else -1) for number in numbers)
