"""What a question is about, and how much of it a text says: in other forms of the words, or in words near to them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from telegram_assistant.ai.local.models import Models
from telegram_assistant.language.clean import has_cyrillic, words_of
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.other_names import other_names
from telegram_assistant.language.questions import focus_of, is_date, is_home, is_name, is_weak, said_for
from telegram_assistant.language.spelling import sound
from telegram_assistant.language.stopwords import subject_of
from telegram_assistant.language.translation import Translations

_FAMILY, _HEARD = 5, 4  # letters that words of one family, and sounds that forms of one name, have in common
_ROOT, _SAME_ROOT = 6, 0.8
_NEAR = 0.6  # cosine of two Russian words
_A_NAME = 3.0  # is worth as much as a rather rare word
_CACHED = 20_000
_POSSESSIVE = re.compile("['\u2019]s$")


@dataclass(frozen=True, slots=True)
class Subject:
    """The names of a question, its other words with what each is worth, and the one that it is asked about."""

    names: tuple[str, ...]
    others: dict[str, float]
    focus: str = ""

    @property
    def rarest(self) -> str:
        return max(self.others, key=self.others.__getitem__, default="")


class Said:
    """The words of a text, made ready to be looked for."""

    def __init__(self, matcher: Matcher, text: str) -> None:
        words = words_of(text)
        self.forms = frozenset(form for word in words for form in matcher.known_by(word))
        self.lemmas = frozenset(matcher.lemma(word) for word in words)


class Matcher:
    """Compares words."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.lemma = models.inflection.lemma
        self.known_by = lru_cache(maxsize=_CACHED)(self._known_by)
        self._near = lru_cache(maxsize=_CACHED)(self._nearness)
        self._in_russian = lru_cache(maxsize=_CACHED)(self._translated)
        self._translations = Translations()

    def subject(self, question: str) -> Subject:
        inflection, kept = self._models.inflection, set(words_of(subject_of(question)))
        names: list[str] = []
        others: dict[str, float] = {}
        for place, written in enumerate(words_of(question)):
            if written not in kept or inflection.is_function_word(written):
                continue
            word = _POSSESSIVE.sub("", written)
            if is_name(word, inflection, first=not place) and not is_date(word) and not is_home(word):
                names.append(word)
            else:
                others[word] = 0.5 if is_weak(word, inflection) else self._worth(word)
        return Subject(tuple(names), others, focus_of(list(others), inflection))

    def has_names(self, subject: Subject, said: Said) -> bool:
        return all(self._stands(name, said) for name in subject.names)

    def share(self, subject: Subject, said: Said) -> float:
        """How much of the question stands there, by what its words are worth. Names must stand there anyway."""
        named, total = _A_NAME * len(subject.names), sum(subject.others.values())
        found = sum(worth * self.match(word, said) for word, worth in subject.others.items())
        return (named + found) / (named + total) if named + total else 1.0

    def focus(self, subject: Subject, said: Said, text: str) -> float:
        """Whether the word that is asked about stands there. In another alphabet only some words can be told."""
        word = subject.focus
        told = has_cyrillic(word) == has_cyrillic(text) or self._others_for(word)
        return self.match(word, said) if word and told else 1.0

    def _others_for(self, word: str) -> frozenset[str]:
        return said_for(self.lemma(word)) | said_for(fold(word))

    def match(self, word: str, said: Said) -> float:
        """1 where it stands in any form, less for a word that only means nearly the same."""
        if self._stands(word, said):
            return 1.0
        lemma = self.lemma(word)
        if not said.lemmas.isdisjoint(self._others_for(word)):
            return 1.0
        best = max((self._near(lemma, other) for other in said.lemmas), default=0.0)
        return best if best >= _NEAR else 0.0

    def _stands(self, word: str, said: Said) -> bool:
        return not said.forms.isdisjoint(self.known_by(word) | self._in_russian(word))

    def _translated(self, word: str) -> frozenset[str]:
        """By what an English word is known in a Russian text. Of a name only the likeliest, and its other names."""
        found = list(self._translations.of(word))
        if word[:1].isupper():
            found = [*found[:1], *other_names(word)]
        return frozenset(form for one in found for form in self._models.inflection.keys(one))

    def _known_by(self, word: str) -> frozenset[str]:
        """By which a word is known again: dictionary forms, its beginning, and how a name sounds."""
        folded = fold(word)
        stem, _, number = folded.rpartition("-")
        if stem and number.isdigit():  # Luna-26 is inflected before its number
            return frozenset(f"{key}-{number}" for key in self._models.inflection.keys(stem))
        forms = set(self._models.inflection.keys(word))
        if len(folded) > _FAMILY:
            forms.add(f"{folded[:_FAMILY]}*")
        if word[0].isupper() and len(heard := sound(folded)) >= _HEARD:
            forms.add(f"{heard[:_HEARD]}~")
        return frozenset(forms)

    def _worth(self, word: str) -> float:
        return 1.0 if word[0].isdigit() else max(0.5, -math.log10(self._models.share(self.lemma(word))) - 2)

    def _nearness(self, one: str, other: str) -> float:
        if not has_cyrillic(one) or not has_cyrillic(other):
            return 0.0
        if one[:_ROOT] in other or other[:_ROOT] in one:  # with another prefix
            return _SAME_ROOT if min(len(one), len(other)) >= _ROOT else 0.0
        left, right = self._models.word_vector(one), self._models.word_vector(other)
        return 0.0 if left is None or right is None else float(left @ right)
