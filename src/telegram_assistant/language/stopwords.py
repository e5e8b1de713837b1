"""Words that say nothing: as a tag, or in a question. Lists are read at the first use: their forms take a second."""

from __future__ import annotations

import tomllib
from functools import cache, cached_property
from importlib.resources import files

from telegram_assistant.language.clean import words_of
from telegram_assistant.language.inflection import Inflection, fold


class StopWords:
    """Lists of words by their keys."""

    def __init__(self, inflection: Inflection) -> None:
        self._inflection = inflection

    @cached_property
    def generic(self) -> frozenset[str]:
        """Nouns too general for a tag, in their dictionary form."""
        return self._lemmas("generic_ru") | self._lemmas("generic_en")

    @cached_property
    def weak(self) -> frozenset[str]:
        """Adjectives that add nothing to their noun."""
        return self._lemmas("weak_ru")

    @cached_property
    def breaking(self) -> frozenset[str]:
        """Function words of all languages but Russian, whose grammar is read."""
        lists = [words for name, words in self._lists.items() if name.startswith("breaking")]
        return frozenset(fold(word) for words in lists for word in words.split())

    @cached_property
    def no_noun(self) -> tuple[str, ...]:
        """Endings of what is hardly a noun."""
        return tuple(self._lists["no_noun_endings"].split())

    def is_generic(self, key: str) -> bool:
        """Also of a compound: January-October says as little as its parts."""
        return key in self.generic or all(part in self.generic for part in key.split("-"))

    @cached_property
    def _lists(self) -> dict[str, str]:
        return tomllib.loads(files(__package__).joinpath("stopwords.toml").read_text("utf-8"))

    def _lemmas(self, name: str) -> frozenset[str]:
        return frozenset(map(self._inflection.lemma, self._lists[name].split()))


@cache
def _words(name: str) -> frozenset[str]:
    lists = tomllib.loads(files(__package__).joinpath("questions.toml").read_text("utf-8"))
    return frozenset(fold(word) for word in lists[name].split())


def without_news(question: str) -> str:
    """Without the words that ask for news of something, as far as it is about something."""
    kept = [word for word in words_of(question) if fold(word) not in _words("news")]
    return " ".join(kept) if subject_of(question) else question


def subject_of(question: str) -> str:
    """The words that it is about; nothing where the question only asks what is new."""
    return " ".join(word for word in words_of(question) if fold(word) not in _words("news") | _words("any"))
