"""What could be a tag, and which of it is: phrases ranked by frequency, place, rarity and nearness to the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from telegram_assistant.ai.local.models import Matrix, Models, Vector, unit
from telegram_assistant.domain.models import MOST_TAGS, Entity
from telegram_assistant.language.clean import words_of
from telegram_assistant.language.stopwords import StopWords

_RERANKED = 14
_EARLY = 25.0  # words: about the headline and the first sentence
_NAME_BONUS = 1.3
_WORD_BONUS = (1.0, 1.0, 1.25, 1.2, 0.9, 0.7)  # by the number of words


@dataclass(slots=True)
class Phrase:
    """A candidate: its usual form, the keys of its words, and where it stands."""

    text: str
    keys: tuple[str, ...]
    places: list[int] = field(default_factory=list)
    head: int = -1  # which of its words the others belong to
    name: bool = False  # a proper name
    person: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a language's reader finds in a text."""

    phrases: Sequence[Phrase]
    entities: tuple[Entity, ...]


class PhraseRanker:
    """Chooses the tags among the candidates."""

    def __init__(self, models: Models, stop: StopWords) -> None:
        self._models = models
        self._stop = stop

    def best(self, phrases: Sequence[Phrase], text_vector: Vector, *, russian: bool) -> tuple[str, ...]:
        """At most five tags, the best first, none of them inside another."""
        alone = {phrase.keys[0]: len(phrase.places) for phrase in phrases if len(phrase.keys) == 1}
        scored = sorted(((self._score(phrase, alone), phrase) for phrase in phrases), key=lambda pair: -pair[0])
        top = [(score, phrase) for score, phrase in scored if score > 0][:_RERANKED]
        if not top:
            return ()
        nearness = self._nearness([phrase for _, phrase in top], text_vector, russian=russian)
        ranked = sorted(
            ((score * (0.6 + 0.8 * near), phrase) for (score, phrase), near in zip(top, nearness, strict=True)),
            key=lambda pair: -pair[0],
        )
        return self._distinct(phrase for _, phrase in ranked)

    def _score(self, phrase: Phrase, alone: Mapping[str, int]) -> float:
        if self._stop.is_generic(phrase.keys[phrase.head]) and not (phrase.name and len(phrase.keys) > 1):
            return 0.0
        rarities = [0.0 if self._stop.is_generic(key) else self._models.rarity(key) for key in phrase.keys]
        rarity = (max(rarities) + sum(rarities) / len(rarities)) / 2
        # Where the head stands without its adjective, mostly the same thing is meant.
        times = max(len(phrase.places), (len(phrase.places) + alone.get(phrase.keys[phrase.head], 0)) / 2)
        often = 1.0 + 0.5 * min(4.0, times - 1)
        early = 1.0 + 0.8 * float(np.exp(-phrase.places[0] / _EARLY))
        words = _WORD_BONUS[min(len(phrase.keys), len(_WORD_BONUS) - 1)]
        return (0.15 + rarity) * often * early * words * (_NAME_BONUS if phrase.name else 1.0)

    def _nearness(self, phrases: Sequence[Phrase], text_vector: Vector, *, russian: bool) -> list[float]:
        if russian:
            vectors = unit(np.stack([self._mean(phrase.keys, text_vector.shape[0]) for phrase in phrases]))
        else:
            vectors = self._models.sentence_vectors([phrase.text for phrase in phrases])
        return [max(0.0, float(near)) for near in vectors @ text_vector]

    def _mean(self, keys: Sequence[str], size: int) -> Matrix:
        found = [vector for key in keys if (vector := self._models.word_vector(key)) is not None]
        return np.mean(found, axis=0) if found else np.zeros(size, np.float32)

    def _distinct(self, phrases: Iterable[Phrase]) -> tuple[str, ...]:
        chosen: list[str] = []
        taken: set[str] = set()
        for phrase in phrases:
            keys = {key for word in words_of(phrase.text) for key in self._models.inflection.keys(word)}
            if not keys & taken:
                chosen.append(phrase.text)
                taken |= keys
            if len(chosen) == MOST_TAGS:
                break
        return tuple(chosen)


def gathered(phrases: Iterable[Phrase]) -> list[Phrase]:
    """The same phrase at several places becomes one; a first name or surname alone belongs to its whole name."""
    phrases = list(phrases)
    people = [phrase for phrase in phrases if phrase.person and len(phrase.keys) > 1]
    whole = {phrase.keys[at]: phrase for at in (0, -1) for phrase in reversed(people)}
    by_keys: dict[tuple[str, ...], Phrase] = {}
    for phrase in phrases:
        alone = phrase.name and len(phrase.keys) == 1
        known = whole.get(phrase.keys[0], phrase) if alone else phrase
        known = by_keys.setdefault(known.keys, known)
        if known is not phrase:
            known.places = sorted({*known.places, *phrase.places})
            known.name = known.name or phrase.name
    return list(by_keys.values())
