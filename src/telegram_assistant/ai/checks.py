"""What every model's result must satisfy, whoever it is and whatever a post told it: what does not is dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from telegram_assistant.ai.clean import has_cyrillic, one_line, plain, visible, words_of
from telegram_assistant.ai.inflection import Inflection, Wording, fold
from telegram_assistant.ai.stopwords import StopWords
from telegram_assistant.ai.taxonomy import Taxonomy
from telegram_assistant.domain.understanding import (
    MOST_COLORS,
    MOST_LABELS,
    MOST_OBJECTS,
    MOST_TAGS,
    Answer,
    Entity,
    Passage,
    Seen,
    Sentence,
    Tagged,
)

_SHORTEST_TAG, _LONGEST_TAG = 2, 60
_MOST_WORDS = 5
_MOST_ENTITIES = 30
_MOST_SENTENCES = 8
_LONGEST_SENTENCE = 600
_LONGEST_DESCRIPTION = 1_000
_LONGEST_LABEL = 60
_LONGEST_OCR = 4_000
_GROUNDED = 0.6  # share of an answer's words that must stand in its sources or in the question
_COLOR = re.compile("#[0-9a-f]{6}")
_NUMBER = re.compile(r"\d+")
_LANGUAGE = re.compile("[a-z]{2}")
_SITE = re.compile(r"\w\.(?!js\b)[^\W\d_]{2,}")  # but Node.js
_QUOTES = "\"'«»„“”`#.,;:!?()[]{}<> "


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
            description=one_line(found.description, _LONGEST_DESCRIPTION),
            labels=_short(found.labels, MOST_LABELS),
            objects=_short(found.objects, MOST_OBJECTS),
            scene=one_line(found.scene, _LONGEST_LABEL),
            ocr=replace(found.ocr, text=visible(found.ocr.text, _LONGEST_OCR))
            if found.ocr and found.ocr.text
            else None,
            nsfw_score=None if score is None else min(1.0, max(0.0, score)),
            dominant_colors=tuple(one for one in found.dominant_colors if _COLOR.fullmatch(one))[:MOST_COLORS],
        )

    def answer(self, found: Answer, question: str, passages: Sequence[Passage]) -> Answer:
        """Only sentences that name passages which were given, and say what stands there."""
        texts = {passage.key: visible(passage.text) for passage in passages}
        kept = []
        for sentence in found.sentences[:_MOST_SENTENCES]:
            sources = tuple(dict.fromkeys(key for key in sentence.sources if key in texts))
            text = one_line(sentence.text, _LONGEST_SENTENCE)
            if text and sources and self._grounded(text, question, [texts[key] for key in sources]):
                kept.append(Sentence(text=text, sources=sources))
        return replace(found, sentences=tuple(kept))

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

    def _grounded(self, text: str, question: str, sources: Sequence[str]) -> bool:
        """Numbers must stand in the sources; words too, unless the answer is in another alphabet than they."""
        known = " ".join((*sources, question))
        if not set(_NUMBER.findall(text)) <= set(_NUMBER.findall(known)):
            return False
        if has_cyrillic(text) != any(map(has_cyrillic, sources)):
            return True
        keys = {key for word in words_of(known) for key in self._inflection.keys(word)}
        telling = [word for word in words_of(text) if len(word) > 3]
        there = sum(bool(self._inflection.keys(word) & keys) for word in telling)
        return bool(telling) and there >= _GROUNDED * len(telling)


def _entities(entities: Iterable[Entity], wording: Wording) -> Iterable[Entity]:
    names: dict[str, Entity] = {}
    for entity in entities:
        name = one_line(entity.name, 2 * _LONGEST_TAG).strip(_QUOTES)
        if 1 < len(name) <= _LONGEST_TAG and not _SITE.search(name) and wording.has(name):
            names.setdefault(fold(name), Entity(entity.kind, name))
    return names.values()


def _short(labels: Iterable[str], most: int) -> tuple[str, ...]:
    tidy = (one_line(label, _LONGEST_LABEL).strip(_QUOTES).lower() for label in labels)
    return tuple(dict.fromkeys(label for label in tidy if label))[:most]
