"""What the result of every model must satisfy. What does not is dropped, so a post cannot make a model say anything."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from telegram_assistant.domain.models import (
    MOST_COLORS,
    MOST_LABELS,
    MOST_OBJECTS,
    MOST_TAGS,
    Answer,
    Embedder,
    Entity,
    Passage,
    Seen,
    Sentence,
    Tagged,
)
from telegram_assistant.language.clean import one_line, plain, said, script_of, sentences_of, visible, words_of
from telegram_assistant.language.inflection import Inflection, Wording, fold
from telegram_assistant.language.spelling import sound
from telegram_assistant.language.stopwords import StopWords
from telegram_assistant.language.taxonomy import Taxonomy

_SHORTEST_TAG, _LONGEST_TAG = 2, 60
_MOST_WORDS = 5
_MOST_ENTITIES = 30
_MOST_SENTENCES = 8
_LONGEST_SENTENCE = 600
_LONGEST_DESCRIPTION = 1_000
_LONGEST_LABEL = 60
_LONGEST_OCR = 4_000
_GROUNDED = 0.6  # share of an answer's words that must stand in its sources or in the question
_HEARD = 3  # sounds in which forms of a name agree, in any alphabet
_COLOR = re.compile("#[0-9a-f]{6}")
_NUMBER = re.compile(r"\d+")
_LANGUAGE = re.compile("[a-z]{2}")
_SITE = re.compile(r"\w\.(?!js\b)[^\W\d_]{2,}")  # but Node.js
_WITHOUT_SPACES = {"CJK", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"}
_ALPHABETS = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "GEORGIAN", ""}
_QUOTES = "\"'«»„“”`#.,;:!?()[]{}<> "
SAME = 0.65  # the whole sentence
PART = 0.35  # each part of it, so that nothing is hung on
MEANING = 512  # the first numbers of the local vectors; the others are of words
_PARTS = re.compile(r"[,;:()\u2014\u2013\u3001\uff0c\uff1b]+")


class Checks:
    """The rules, with what they need to know of words and topics."""

    def __init__(self, taxonomy: Taxonomy, inflection: Inflection, stop: StopWords) -> None:
        self.taxonomy = taxonomy
        self._inflection = inflection
        self._stop = stop

    def tagged(self, found: Tagged, text: str) -> Tagged:
        """Tags and names only where the text has them, topics only of the taxonomy."""
        wording = Wording(plain(text), self._inflection)
        return replace(
            found,
            tags=self._tags(found.tags, wording),
            topics=self.taxonomy.known(found.topics),
            entities=tuple(dict.fromkeys(_entities(found.entities, wording)))[:_MOST_ENTITIES],
            language=found.language if _LANGUAGE.fullmatch(found.language) else "",
        )

    def seen(self, found: Seen) -> Seen:
        """Bounded, and without addresses: what stands on a picture was written by a stranger."""
        score = found.nsfw_score
        return replace(
            found,
            description=said(found.description, _LONGEST_DESCRIPTION),
            labels=_short(found.labels, MOST_LABELS),
            objects=_short(found.objects, MOST_OBJECTS),
            scene=said(found.scene, _LONGEST_LABEL),
            ocr=replace(found.ocr, text=visible(found.ocr.text, _LONGEST_OCR))
            if found.ocr and found.ocr.text
            else None,
            nsfw_score=None if score is None else min(1.0, max(0.0, score)),
            dominant_colors=tuple(one for one in found.dominant_colors if _COLOR.fullmatch(one))[:MOST_COLORS],
        )

    def answer(self, found: Answer, question: str, passages: Sequence[Passage]) -> list[tuple[Sentence, list[str]]]:
        """Only sentences that name passages which were given, and say what stands there.

        Beside each: nothing, or the passages of which it may be a translation. Then their meaning has to be compared.
        """
        texts = {passage.key: visible(passage.text) for passage in passages}
        kept: list[tuple[Sentence, list[str]]] = []
        for sentence in found.sentences[:_MOST_SENTENCES]:
            sources = tuple(dict.fromkeys(key for key in sentence.sources if key in texts))
            text, named = said(sentence.text, _LONGEST_SENTENCE), [texts[key] for key in sources]
            if not text or not sources or not _numbered(text, question, named):
                continue
            if not self._named(text, question, named):
                continue
            if self._grounded(text, question, named):
                kept.append((Sentence(text=text, sources=sources), []))
            elif _may_translate(text, question, named):
                kept.append((Sentence(text=text, sources=sources), named))
        return kept

    def _tags(self, tags: Iterable[str], wording: Wording) -> tuple[str, ...]:
        kept: list[str] = []
        taken: set[tuple[str, ...]] = set()
        for raw in tags:
            tag = one_line(raw, 2 * _LONGEST_TAG).strip(_QUOTES)
            words = words_of(tag)
            lemmas = tuple(map(self._inflection.lemma, words))
            fits = 0 < len(words) <= _MOST_WORDS and _SHORTEST_TAG <= len(tag) <= _LONGEST_TAG and not _SITE.search(tag)
            if fits and lemmas not in taken and not all(map(self._says_nothing, words)) and wording.has(tag):
                taken.add(lemmas)
                kept.append(tag)
        return tuple(kept[:MOST_TAGS])

    def _says_nothing(self, word: str) -> bool:
        if word.isdigit() or fold(word) in self._stop.breaking or self._inflection.is_function_word(word):
            return True
        return self._stop.is_generic(self._inflection.lemma(word))

    def _named(self, text: str, question: str, sources: Sequence[str]) -> bool:
        """Its names stand in the sources or in the question, in whichever alphabet: one that does not was made up.

        And the question's own names stand in the sources: what is told of others is no answer. In a translation only
        names that sound alike can be told, so there one of them is enough.
        """
        told, heard = _names(text, self._inflection), _names(question, self._inflection)
        known, asked = self._known(" ".join((*sources, question))), self._known(" ".join(sources))
        need = any if _may_translate(text, question, sources) else all
        return all(
            not names or need(not self._known(name).isdisjoint(words) for name in names)
            for names, words in ((told, known), (heard, asked))
        )

    def _known(self, text: str) -> set[str]:
        """By which its words are known again: dictionary forms, and what long ones sound like."""
        words = words_of(text)
        heard = {f"~{found[:_HEARD]}" for word in words if len(found := sound(fold(word))) >= _HEARD}
        return heard.union(*(self._inflection.keys(word) for word in words))

    def _grounded(self, text: str, question: str, sources: Sequence[str]) -> bool:
        """Most of its words stand in the sources, and so in each writing that it uses: none slips in beside others."""
        known = {key for word in _terms(" ".join((*sources, question))) for key in self._inflection.keys(word)}
        writings: dict[str, list[bool]] = {}
        for word in _terms(text):
            if _tells(word):
                writings.setdefault(script_of(word), []).append(bool(self._inflection.keys(word) & known))
        return bool(writings) and all(sum(there) >= _GROUNDED * len(there) for there in writings.values())


def _names(text: str, inflection: Inflection) -> list[str]:
    """Words written as names, but not the first of a sentence and no words of two letters."""
    words = [word for one in sentences_of(text) for word in words_of(one)[1:]]
    return [word for word in words if len(word) > 2 and word[0].isupper() and not inflection.is_function_word(word)]


def _terms(text: str) -> Iterable[str]:
    """Its words; where writing has no spaces, each two letters that stand together."""
    for word in words_of(text):
        if script_of(word) in _WITHOUT_SPACES:
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        else:
            yield word


def _tells(word: str) -> bool:
    """Short words of alphabets only join others."""
    return len(word) > 3 or script_of(word) not in _ALPHABETS


def _numbered(text: str, question: str, sources: Sequence[str]) -> bool:
    return set(_NUMBER.findall(text)) <= set(_NUMBER.findall(" ".join((*sources, question))))


def _may_translate(text: str, question: str, sources: Sequence[str]) -> bool:
    """It is written as the question is, and none of its sources is."""
    writing = script_of(text)
    return writing == script_of(question) and all(script_of(source) != writing for source in sources)


def _entities(entities: Iterable[Entity], wording: Wording) -> Iterable[Entity]:
    names: dict[str, Entity] = {}
    for entity in entities:
        name = one_line(entity.name, 2 * _LONGEST_TAG).strip(_QUOTES)
        if 1 < len(name) <= _LONGEST_TAG and not _SITE.search(name) and wording.has(name):
            names.setdefault(fold(name), Entity(entity.kind, name))
    return names.values()


def _short(labels: Iterable[str], most: int) -> tuple[str, ...]:
    tidy = (said(label, _LONGEST_LABEL).strip(_QUOTES).lower() for label in labels)
    return tuple(dict.fromkeys(label for label in tidy if label))[:most]


class Translations:
    """Whether a sentence in another script says what its sources say. Words cannot be compared then, only meaning.

    The local model knows sixteen languages. A translation of a sentence stands at 0.63 to 0.88, a sentence about the
    same people that says something else at 0.55 at most, an order to the reader below 0.4 (measured on Russian news).
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def says(self, sentence: str, sources: Sequence[str]) -> bool:
        """Whether one sentence of the sources, or two that follow each other, say it with all its parts. May raise
        Retry."""
        told = list(_told(sources))
        if not told:
            return False
        parts = [part for part in _PARTS.split(sentence) if len(words_of(part)) > 1]
        embedded = await self._embedder.embed([sentence, *parts, *told])
        vectors = [vector[:MEANING] for vector in embedded.vectors]
        there = vectors[len(parts) + 1 :]
        whole, *pieces = (max(_cosine(one, other) for other in there) for one in vectors[: len(parts) + 1])
        return whole >= SAME and all(piece >= PART for piece in pieces)


def _told(sources: Sequence[str]) -> Iterator[str]:
    for source in sources:
        sentences = [one for one in sentences_of(source) if not one.endswith(("?", "\uff1f"))]  # they tell nothing
        yield from sentences
        yield from (f"{one} {other}" for one, other in pairwise(sentences))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(float.__mul__, one, other)) / lengths if lengths else 0.0
