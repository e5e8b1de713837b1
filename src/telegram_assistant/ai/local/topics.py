"""Topics of a text: nearness in meaning to what posts of the topic sound like, and the topic's keywords."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telegram_assistant.ai.local.models import NAVEC_SIZE, Matrix, Models, Vector, unit
from telegram_assistant.language.clean import words_of
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.taxonomy import MOST_TOPICS, Taxonomy

_BY_MEANING = 0.8  # shared by USE and, for Russian, navec
_BY_KEYWORDS = 0.2
_MOST_KEYWORDS = 3.0
_ENOUGH = 0.28
_BESIDE_THE_FIRST = 0.6
_HEADLINE = 20  # words
_COMMON_KEYWORD = 3e-4
_COMMON_WORD = 1e-3


Scores = NDArray[np.floating[Any]]


class TopicFinder:
    """Finds the topics of a taxonomy."""

    def __init__(self, models: Models, taxonomy: Taxonomy) -> None:
        self._models = models
        self._topics = taxonomy.topics
        self._keywords: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
        for number, topic in enumerate(taxonomy.topics):
            for lemmas in {self._lemmas(keyword) for keyword in topic.keywords} - {()}:
                self._keywords[lemmas[0]].append((lemmas, number))
        about = [(text, number) for number, topic in enumerate(taxonomy.topics) for text in topic.about]
        self._owners = np.array([number for _, number in about])
        self._use, self._use_middle = _centred(models.sentence_vectors([text for text, _ in about]))
        self._navec, self._navec_middle = _centred(np.stack([self.russian_vector(text) for text, _ in about]))

    def topics(self, text: str, text_vector: Vector, russian_vector: Vector) -> tuple[str, ...]:
        """At most three, the surest first; none where nothing is near enough."""
        meaning: Scores = self._near(text_vector, self._use, self._use_middle)
        if russian_vector.any():
            meaning = (meaning + self._near(russian_vector, self._navec, self._navec_middle)) / 2
        keywords = np.minimum(self._by_keywords(text), _MOST_KEYWORDS)
        scores = _BY_MEANING * meaning + _BY_KEYWORDS * keywords
        order = np.argsort(-scores)[:MOST_TOPICS]
        least = max(_ENOUGH, _BESIDE_THE_FIRST * float(scores[order[0]]))
        return tuple(self._topics[number].key for number in order if scores[number] >= least)

    def russian_vector(self, text: str) -> Vector:
        """The mean of navec's vectors, rare words first; zeros for a text without Russian words."""
        total = np.zeros(NAVEC_SIZE, np.float32)
        for lemma in self._lemmas(text):
            vector = self._models.word_vector(lemma)
            if vector is not None:
                total += vector * (_COMMON_WORD / (_COMMON_WORD + self._models.share(lemma)))
        return unit(total)

    def _near(self, vector: Vector, abouts: Matrix, middle: Vector) -> Vector:
        near = abouts @ unit(vector - middle)
        return np.array([near[self._owners == number].max() for number in range(len(self._topics))], np.float32)

    def _by_keywords(self, text: str) -> Vector:
        scores = np.zeros(len(self._topics), np.float32)
        lemmas = self._lemmas(text)
        seen: set[tuple[tuple[str, ...], int]] = set()
        for at, lemma in enumerate(lemmas):
            for keyword, number in self._keywords.get(lemma, ()):
                if lemmas[at : at + len(keyword)] == keyword and (keyword, number) not in seen:
                    seen.add((keyword, number))
                    scores[number] += self._weight(keyword) * (1.3 if at < _HEADLINE else 1.0)
        return scores

    def _weight(self, keyword: Sequence[str]) -> float:
        rarest = min(self._models.share(lemma) for lemma in keyword)
        return _COMMON_KEYWORD / (_COMMON_KEYWORD + rarest) * (1 + 0.3 * (len(keyword) - 1))

    def _lemmas(self, text: str) -> tuple[str, ...]:
        return tuple(self._models.inflection.lemma(fold(word)) for word in words_of(text))


def _centred(vectors: Matrix) -> tuple[Matrix, Vector]:
    """Without what all have in common, which tells nothing of the topic."""
    known = np.abs(vectors).max(axis=1) > 0  # the others are of languages that navec does not speak
    middle: Vector = vectors[known].mean(axis=0) if known.any() else np.zeros(vectors.shape[1], np.float32)
    return unit((vectors - middle) * known[:, None]), middle
