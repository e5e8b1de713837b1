"""An answer made of sentences that stand in the passages: nothing is invented, and nothing in them is obeyed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from telegram_assistant.ai.local.models import Models, TextVectors
from telegram_assistant.ai.local.subject import Matcher, Said, Subject
from telegram_assistant.domain.models import Answer, Passage, Sentence
from telegram_assistant.language.clean import has_cyrillic, plain, sentences_of, words_of
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.questions import Asked, asks_for, asks_for_now, has_answer
from telegram_assistant.language.stopwords import subject_of, without_news

# A logistic rule over the signs of a sentence, fitted to every second question of bench/questions.toml.
_ENOUGH = 5.8
# In another language a sentence is near enough by itself, or fairly near with enough of the words in translation.
_NEAR_ENOUGH, _FAIRLY_NEAR, _ENOUGH_TRANSLATED = 0.56, 0.45, 4.0
_BESIDE_THE_BEST, _BESIDE_IF_IT_CHANGES = 0.17, 0.4
_MOST_SENTENCES = 3
_MOST_CANDIDATES = 300
_LONGEST_QUESTION = 500
_LONGEST_SENTENCE = 500
_SHORTEST = 15
_CHANGES = frozenset({Asked.NUMBER})  # what was said last counts


@dataclass(frozen=True, slots=True)
class _Told:
    """A sentence between its neighbours."""

    text: str
    passage: Passage
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence that may answer."""

    text: str
    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class Signs:
    """By which a sentence is judged, each from 0 to 1."""

    meaning: float  # how near the question is
    passage: float  # how near its whole passage is
    around: float  # how much of the question stands in the sentence and its neighbours
    found: float  # whether the word that is asked about stands here or beside
    focus: float  # the same; 1 where that cannot be told
    rarest: float  # whether the rarest of its words does, anywhere in the passage


class Extractor:
    """Picks the sentences of passages that answer a question."""

    def __init__(self, models: Models, vectors: TextVectors) -> None:
        self._models = models
        self._vectors = vectors
        self._matcher = Matcher(models)

    def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        asked = plain(question, _LONGEST_QUESTION)
        sentences = [told for passage in passages for told in _sentences(passage)][:_MOST_CANDIDATES]
        if not words_of(asked) or not sentences:
            return Answer()
        if not subject_of(asked):
            return Answer(sentences=_merged(_leads(sentences)))
        found = sorted(self._scored(without_news(asked), sentences), key=lambda candidate: -candidate.score)
        changes = asks_for(asked) in _CHANGES or asks_for_now(asked)
        beside = _BESIDE_IF_IT_CHANGES if changes else _BESIDE_THE_BEST
        best = [one for one in found if one.score >= max(1.0, found[0].score - beside)]
        if changes:
            best.sort(key=lambda one: -one.passage.said_at)
        return Answer(sentences=_merged(best))

    def _scored(self, question: str, sentences: Sequence[_Told]) -> list[_Candidate]:
        """1 is just enough."""
        return [
            _Candidate(text, told.passage, score(signs, same_writing=has_cyrillic(question) == has_cyrillic(told.text)))
            for told, text, signs in self.judged(question, sentences)
        ]

    def judged(self, question: str, sentences: Sequence[_Told]) -> list[tuple[_Told, str, Signs]]:
        """Those that have the names of the question and what it asks for: only these are worth more work."""
        subject = self._matcher.subject(question)
        kept = [(told, text) for told in sentences if (text := self._answering(told, question, subject))]
        if not kept:
            return []
        texts = {told.passage.key: plain(told.passage.text) for told, _ in kept}
        near = self._models.sentence_vectors([question, *(told.text for told, _ in kept)])
        whole = self._vectors.embed([question, *texts.values()])
        near_passage = dict(zip(texts, whole[1:] @ whole[0], strict=True))
        said = {key: Said(self._matcher, text) for key, text in texts.items()}
        found = []
        for (told, text), meaning in zip(kept, near[1:] @ near[0], strict=True):
            key, around = told.passage.key, Said(self._matcher, _around(told))
            signs = Signs(
                meaning=float(meaning),
                passage=float(near_passage[key]),
                around=self._matcher.share(subject, around),
                found=self._matcher.match(subject.focus, around) if subject.focus else 1.0,
                focus=self._matcher.focus(subject, around, told.text),
                rarest=self._matcher.match(subject.rarest, said[key]) if subject.rarest else 1.0,
            )
            found.append((told, text, signs))
        return found

    def _answering(self, told: _Told, question: str, subject: Subject) -> str:
        """The sentence, with a neighbour that has what is asked for or whom; empty: it does not answer."""
        asked, inflection = asks_for(question), self._models.inflection
        if not self._matcher.has_names(subject, Said(self._matcher, _around(told))):
            return ""
        if has_answer(told.text, asked, question, inflection):
            named = self._matcher.has_names(subject, Said(self._matcher, told.text))
            return told.text if named or not told.before else f"{told.before} {told.text}"
        if told.after and has_answer(told.after, asked, question, inflection):
            return f"{told.text} {told.after}"
        return ""


def score(signs: Signs, *, same_writing: bool) -> float:
    """1 is just enough."""
    about = 1.5 * signs.meaning + 2.5 * signs.passage
    found = about + 1.8 * signs.around + 2.2 * signs.found + 1.5 * signs.rarest
    if same_writing:
        return found / _ENOUGH
    near = signs.meaning + signs.passage
    return max(signs.focus * near / _NEAR_ENOUGH, min(found / _ENOUGH_TRANSLATED, near / _FAIRLY_NEAR))


def _around(told: _Told) -> str:
    return f"{told.before} {told.text} {told.after}"


def _prose(text: str) -> str:
    """Without lines of hashtags: they name what a post is about, and say nothing about it."""
    return "\n".join(line for line in text.splitlines() if not _is_tags(line.split()))


def _is_tags(words: Sequence[str]) -> bool:
    return bool(words) and all(word.startswith("#") for word in words)


def _is_whole(sentence: str) -> bool:
    """A quotation that is opened and not closed was cut off, as lines of a picture are."""
    return sentence.count("«") == sentence.count("»")


def _sentences(passage: Passage) -> Iterator[_Told]:
    found = [one[:_LONGEST_SENTENCE] for one in sentences_of(plain(_prose(passage.text)))]
    for before, text, after in zip(["", *found], found, [*found[1:], ""], strict=False):
        if len(text) >= _SHORTEST and _is_whole(text):
            yield _Told(text, passage, before, after)


def _leads(sentences: Sequence[_Told]) -> list[_Candidate]:
    """What each passage begins with: who asks about nothing in particular wants to know what there is."""
    first: dict[str, _Told] = {}
    for told in sentences:
        first.setdefault(told.passage.key, told)
    return [_Candidate(told.text, told.passage, 1.0) for told in first.values()]


def _merged(candidates: Sequence[_Candidate]) -> tuple[Sentence, ...]:
    """The same sentence in several posts is said once, with all its sources."""
    said: dict[str, tuple[str, list[str]]] = {}
    for candidate in candidates:
        words = " ".join(fold(word) for word in words_of(candidate.text))
        if words not in said and len(said) == _MOST_SENTENCES:
            continue
        _, keys = said.setdefault(words, (candidate.text, []))
        if candidate.passage.key not in keys:
            keys.append(candidate.passage.key)
    return tuple(Sentence(text=text, sources=tuple(keys)) for text, keys in said.values())
