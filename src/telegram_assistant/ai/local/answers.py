"""An answer made of sentences that stand in the passages: nothing is invented, and nothing in them is obeyed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from telegram_assistant.ai.local.models import Models, TextVectors
from telegram_assistant.domain.models import Answer, Passage, Sentence
from telegram_assistant.language.clean import has_cyrillic, plain, sentences_of, words_of
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.stopwords import subject_of, without_news

# Measured (decision 0009) so that few questions get a sentence that only seems to answer. Words of languages other than
# Russian are counted by rougher means, and more of them meet by chance.
_ENOUGH, _ENOUGH_ELSEWHERE, _ENOUGH_ACROSS_LANGUAGES = 0.65, 0.72, 0.56
_BESIDE_THE_BEST = 0.85
_MOST_SENTENCES = 3
_MOST_CANDIDATES = 300
_LONGEST_QUESTION = 500
_LONGEST_SENTENCE = 500
_SHORTEST = 15


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence that may answer."""

    text: str
    key: str
    score: float


class Extractor:
    """Picks the sentences of passages that answer a question."""

    def __init__(self, models: Models, vectors: TextVectors) -> None:
        self._models = models
        self._vectors = vectors

    def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        asked = plain(question, _LONGEST_QUESTION)
        sentences = [
            (sentence[:_LONGEST_SENTENCE], passage)
            for passage in passages
            for sentence in sentences_of(plain(_prose(passage.text)))
            if len(sentence) >= _SHORTEST and _is_whole(sentence)
        ][:_MOST_CANDIDATES]
        if not words_of(asked) or not sentences:
            return Answer()
        if not subject_of(asked):
            return Answer(sentences=_merged(_leads(sentences)))
        found = sorted(self._scored(without_news(asked), sentences), key=lambda candidate: -candidate.score)
        best = [one for one in found if one.score >= max(1.0, _BESIDE_THE_BEST * found[0].score)]
        return Answer(sentences=_merged(best))

    def _scored(self, question: str, sentences: Sequence[tuple[str, Passage]]) -> list[_Candidate]:
        """1 is just enough."""
        texts = {passage.key: plain(passage.text) for _, passage in sentences}
        wanted = self._weights(question)
        near = self._models.sentence_vectors([question, *(text for text, _ in sentences)])
        near_sentence = near[1:] @ near[0]
        whole = self._vectors.embed([question, *texts.values()])
        near_passage = dict(zip(texts, whole[1:] @ whole[0], strict=True))
        words_in = {key: self._share_of(wanted, text) for key, text in texts.items()}
        scored = []
        for (text, passage), meaning in zip(sentences, near_sentence, strict=True):
            about = float(meaning) + float(near_passage[passage.key])
            if has_cyrillic(question) == has_cyrillic(texts[passage.key]):
                words = self._share_of(wanted, text) + words_in[passage.key]
                score = (about + words) / 2 / (_ENOUGH if has_cyrillic(question) else _ENOUGH_ELSEWHERE)
            else:
                score = about / _ENOUGH_ACROSS_LANGUAGES
            scored.append(_Candidate(text, passage.key, score))
        return scored

    def _weights(self, question: str) -> dict[str, float]:
        lemmas = {self._models.inflection.lemma(word) for word in words_of(question)}
        return {lemma: -math.log10(self._models.share(lemma)) - 2 for lemma in lemmas if len(lemma) > 2}

    def _share_of(self, wanted: dict[str, float], text: str) -> float:
        """How much of the question's words stands here, rare ones counting more."""
        lemmas = {self._models.inflection.lemma(word) for word in words_of(text)}
        total = sum(max(0.0, weight) for weight in wanted.values())
        return sum(max(0.0, weight) for lemma, weight in wanted.items() if lemma in lemmas) / total if total else 0.0


def _prose(text: str) -> str:
    """Without lines of hashtags: they name what a post is about, and say nothing about it."""
    return "\n".join(line for line in text.splitlines() if not _is_tags(line.split()))


def _is_tags(words: Sequence[str]) -> bool:
    return bool(words) and all(word.startswith("#") for word in words)


def _is_whole(sentence: str) -> bool:
    """A quotation that is opened and not closed was cut off, as lines of a picture are."""
    return sentence.count("«") == sentence.count("»")


def _leads(sentences: Sequence[tuple[str, Passage]]) -> list[_Candidate]:
    """What each passage begins with: who asks about nothing in particular wants to know what there is."""
    first: dict[str, str] = {}
    for text, passage in sentences:
        first.setdefault(passage.key, text)
    return [_Candidate(text, key, 1.0) for key, text in first.items()]


def _merged(candidates: Sequence[_Candidate]) -> tuple[Sentence, ...]:
    """The same sentence in several posts is said once, with all its sources."""
    said: dict[str, tuple[str, list[str]]] = {}
    for candidate in candidates:
        words = " ".join(fold(word) for word in words_of(candidate.text))
        if words not in said and len(said) == _MOST_SENTENCES:
            continue
        _, keys = said.setdefault(words, (candidate.text, []))
        if candidate.key not in keys:
            keys.append(candidate.key)
    return tuple(Sentence(text=text, sources=tuple(keys)) for text, keys in said.values())
