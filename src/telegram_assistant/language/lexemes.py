"""Texts and queries in the words that the full-text index keeps: dictionary forms to be found, forms as written.

A word that may be of several dictionary forms is kept under each; a compound is kept as its parts, side by side.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from telegram_assistant.domain.query import Clause, Term, words_in
from telegram_assistant.language.clean import has_cyrillic
from telegram_assistant.language.inflection import Inflection, fold

LONGEST_WORD = 64  # characters; the rest of a longer one says nothing
MOST_LEMMAS = 4
LAST_PLACE = 16_000  # PostgreSQL counts no further
GAP = 20  # places between two parts of a post: no phrase begins in one and ends in the other
EXACT = "="  # before a form as it is written; no word begins with it

_HYPHEN = re.compile(r"-")
# Scripts that do not part words: each sign is a word of its own there, and what is looked for is a row of them.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
# Of an address the site is a word that people look for; the rest of it is noise.
_ADDRESS = re.compile(r"(?:https?|ftp)://([^\s/?#]{1,255})[^\s]*", re.IGNORECASE)
_CACHED = 100_000
# Words that only hold others together or ask; of Russian ones the dictionary knows the prepositions and the like.
_FUNCTION_WORDS = """
    a about after all also am an and any are as at be been before being but by can could did do does for from had has
    have he her his how i if in into is it its may me more most my no not of on or our she should so some than that
    the their them then there these they this those to under up us was we were what when where which who whom whose
    why will with would you your
    быть весь где какой какова когда который куда наш ваш мой твой свой откуда очень почему зачем сам самый сколько так
    такой там тот тут уже этот являться"""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a post with its weight in the ranking: A, B, C or D."""

    text: str
    weight: str


@dataclass(frozen=True, slots=True)
class Lexemes:
    """A text as PostgreSQL writes it down in two `tsvector`s, and how many words it has."""

    words: str
    forms: str
    length: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A clause as two `tsquery`s, of which one must fit (either may be empty), and how to tell that it is rare."""

    words: str
    forms: str
    lemmas: tuple[tuple[tuple[str, ...], ...], ...]  # for each option its words, each as its possible dictionary forms
    phrase: bool  # some option has more than one word
    empty: bool  # none of its words says anything: prepositions, pronouns


class Lexicon:
    """Knows the dictionary forms of words."""

    def __init__(self, inflection: Inflection) -> None:
        self._inflection = inflection
        self.lemmas = lru_cache(maxsize=_CACHED)(self._lemmas)
        self._function_words = frozenset(_FUNCTION_WORDS.split())

    def _lemmas(self, word: str) -> tuple[str, ...]:
        """Every dictionary form that a word, folded and without a hyphen, may be of; the likeliest first."""
        if has_cyrillic(word):
            forms = dict.fromkeys(fold(found.normal_form) for found in self._inflection.parse(word))
            return tuple(forms)[:MOST_LEMMAS]
        return (self._inflection.lemma(word),)

    def knows(self, word: str) -> bool:
        """Whether the dictionary has it: only Russian words are in it."""
        return has_cyrillic(word) and any(found.is_known for found in self._inflection.parse(word))

    def _says_nothing(self, word: str) -> bool:
        known = not self._function_words.isdisjoint((word, *self.lemmas(word)[:1]))
        return known or self._inflection.is_function_word(word)

    def lexemes(self, parts: Iterable[Part]) -> Lexemes:
        """Both vectors of a text."""
        words: dict[str, list[str]] = defaultdict(list)
        forms: dict[str, list[str]] = defaultdict(list)
        place = length = 0
        for part in parts:
            for word in pieces(readable(part.text)):
                place = min(place + 1, LAST_PLACE)
                length += 1
                for lemma in self.lemmas(word):
                    words[lemma].append(f"{place}{part.weight}")
                forms[EXACT + word].append(str(place))
            place = min(place + GAP, LAST_PLACE)
        return Lexemes(vector_text(words), vector_text(forms), length)

    def wanted(self, clause: Clause) -> Wanted:
        """None of its words may be left: then both are empty."""
        options = [(term.exact, term_pieces(term)) for term in clause.options if term_pieces(term)]
        row = " <-> ".join
        inflected = [
            row(any_of(map(quoted, self.lemmas(word))) for word in words) for exact, words in options if not exact
        ]
        written = [row(quoted(EXACT + word) for word in words) for exact, words in options if exact]
        return Wanted(
            words=any_of(inflected),
            forms=any_of(written),
            lemmas=tuple(tuple(map(self.lemmas, words)) for _, words in options),
            phrase=any(len(words) > 1 for _, words in options),
            empty=all(self._says_nothing(word) for _, words in options for word in words),
        )


def pieces(text: str) -> Iterator[str]:
    """The words of a text as they are kept: folded, compounds in their parts."""
    for found in words_in(text):
        yield from split(found[0])


def split(word: str) -> list[str]:
    """A word as it is kept."""
    parts: list[str] = []
    for part in _HYPHEN.split(fold(word)):
        if _UNSPACED.search(part):
            parts += part
        elif part:
            parts.append(part[:LONGEST_WORD])
    return parts


def term_pieces(term: Term) -> list[str]:
    return [piece for word in term.words for piece in split(word)]


def readable(text: str) -> str:
    """Of addresses only the site."""
    return _ADDRESS.sub(r" \1 ", text)


def quoted(lexeme: str) -> str:
    """As tsvector and tsquery read it, with any characters."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def any_of(queries: Iterable[str]) -> str:
    found = list(queries)
    return found[0] if len(found) == 1 else f"({' | '.join(found)})" if found else ""


def all_of(queries: Sequence[str]) -> str:
    return " & ".join(f"({query})" for query in queries)


def vector_text(lexemes: dict[str, list[str]]) -> str:
    return " ".join(
        f"{quoted(lexeme)}:{','.join(places)}" if places else quoted(lexeme) for lexeme, places in lexemes.items()
    )
