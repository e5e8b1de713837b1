"""Texts and queries in the words that the full-text index keeps: dictionary forms to be found, forms as written.

A word that may be of several dictionary forms is kept under each; a compound is kept as its parts, side by side.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from telegram_assistant.domain.query import Clause, Term, words_in
from telegram_assistant.domain.signs import is_sign, signs_in
from telegram_assistant.language.clean import has_cyrillic
from telegram_assistant.language.inflection import Inflection, fold
from telegram_assistant.language.name_forms import nominatives

LONGEST_WORD = 64  # characters; the rest of a longer one says nothing
MOST_LEMMAS = 4
LAST_PLACE = 16_000  # PostgreSQL counts no further
GAP = 20  # places between two parts of a post: no phrase begins in one and ends in the other
EXACT = "="  # before a form as it is written; no word begins with it

OWN = "A"  # the weight of what the post itself says
_HYPHEN = re.compile(r"-")
_SENTENCE_END = re.compile("[.!?:\u2026\n\u2022]")
# As pymorphy3 calls them. Places it knows, and how they inflect; of people's names it takes "Илон" for one of "Илона".
_PLACE, _PERSON = "Geox", "Name"
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
    """A clause as three `tsquery`s, of which one must fit (any may be empty), and how to tell that it is rare."""

    options: tuple[str, ...]  # in the language of the query, of which one must fit
    foreign: str  # in the other one
    forms: str
    lemmas: tuple[tuple[tuple[str, ...], ...], ...]  # for each option its words, each as its possible dictionary forms
    translations: tuple[tuple[tuple[str, ...], ...], ...]  # the same of the foreign ones
    phrase: bool  # some option has more than one word
    empty: bool  # none of its words says anything: prepositions, pronouns
    others: str = ""  # the same by other names, which weigh less: a `tsquery` on the words

    @property
    def words(self) -> str:
        return any_of(self.options)


class Lexicon:
    """Knows the dictionary forms of words."""

    def __init__(self, inflection: Inflection) -> None:
        self._inflection = inflection
        self.lemmas = lru_cache(maxsize=_CACHED)(self._lemmas)
        self._names = lru_cache(maxsize=_CACHED)(self._find_names)
        self._function_words = frozenset(_FUNCTION_WORDS.split())

    def _lemmas(self, word: str) -> tuple[str, ...]:
        """Every dictionary form that a word, folded and without a hyphen, may be of; the likeliest first."""
        if has_cyrillic(word):
            forms = dict.fromkeys(fold(found.normal_form) for found in self._inflection.parse(word))
            return tuple(forms)[:MOST_LEMMAS]
        return (self._inflection.lemma(word),)

    def readings(self, word: str, written: str, *, first: bool = False) -> tuple[str, ...]:
        """The same of a word in a text: one that is written as a name may be one that the dictionary does not know.

        `first`: of its sentence, where every word has a capital letter.
        """
        names = self._names(word, capital=written[:1].isupper() and not written.isupper() and not first)
        return tuple(dict.fromkeys((*self.lemmas(word), *names))) if names else self.lemmas(word)

    def _find_names(self, word: str, *, capital: bool) -> tuple[str, ...]:
        if not has_cyrillic(word):
            return ()
        likeliest = self._inflection.parse(word)[0]
        if likeliest.is_known and (not (capital or _PERSON in likeliest.tag) or _PLACE in likeliest.tag):
            return ()
        return nominatives(word)

    def knows(self, word: str) -> bool:
        """Whether the dictionary has it: only Russian words are in it."""
        return has_cyrillic(word) and any(found.is_known for found in self._inflection.parse(word))

    def _says_nothing(self, word: str) -> bool:
        known = not self._function_words.isdisjoint((word, *self.lemmas(word)[:1]))
        return known or self._inflection.is_function_word(word)

    def telling(self, text: str) -> Iterator[str]:
        """The words that say something, in their likeliest dictionary forms."""
        return (self.lemmas(word)[0] for word in pieces(text) if not self._says_nothing(word))

    def lexemes(self, parts: Iterable[Part]) -> Lexemes:
        """Both vectors of a text."""
        words: dict[str, list[str]] = defaultdict(list)
        forms: dict[str, list[str]] = defaultdict(list)
        place = length = 0
        for part in parts:
            text = readable(part.text)
            for word, written, first in _as_written(text):
                place = min(place + 1, LAST_PLACE)
                length += 1
                for lemma in self.readings(word, written, first=first):
                    words[lemma].append(f"{place}{part.weight}")
                forms[EXACT + word].append(str(place))
            for sign in signs_in(text) if part.weight == OWN else ():
                forms[EXACT + split(sign[0])[0]] = []  # it may stand anywhere
            place = min(place + GAP, LAST_PLACE)
        return Lexemes(vector_text(words), vector_text(forms), length)

    def wanted(self, clause: Clause) -> Wanted:
        """None of its words may be left: then both are empty."""
        if clause.others:
            own, others = self.wanted(Clause(clause.options)), self.wanted(Clause(clause.others))
            return replace(own, lemmas=own.lemmas + others.lemmas, others=others.words)
        options = [(term, self.term_readings(term)) for term in clause.options if term_pieces(term)]
        own_words = [(term, words) for term, words in options if not term.foreign]
        foreign = [words for term, words in options if term.foreign]
        written = [
            " <-> ".join(quoted(EXACT + word) for word in term_pieces(term)) for term, _ in own_words if term.exact
        ]
        return Wanted(
            options=tuple(_side_by_side(words) for term, words in own_words if not term.exact),
            foreign=any_of(map(_side_by_side, foreign)),
            forms=any_of(written),
            lemmas=tuple(words for _, words in own_words),
            translations=tuple(foreign),
            phrase=any(len(words) > 1 for _, words in own_words),
            empty=all(self._says_nothing(word) for term, _ in own_words for word in term_pieces(term)),
        )

    def term_readings(self, term: Term) -> tuple[tuple[str, ...], ...]:
        """For each word of it the dictionary forms that it may be of; a sign is counted as it stands in the index."""
        words = _written_pieces(term)
        return tuple((EXACT + one,) if is_sign(one) else self.readings(one, written) for one, written in words)


def _side_by_side(words: Iterable[Iterable[str]]) -> str:
    """Words in a row, each in any of its forms."""
    return " <-> ".join(any_of(map(quoted, forms)) for forms in words)


def pieces(text: str) -> Iterator[str]:
    """The words of a text as they are kept: folded, compounds in their parts."""
    for found in words_in(text):
        yield from split(found[0])


def _as_written(text: str) -> Iterator[tuple[str, str, bool]]:
    """The same words, each as it is kept, as it is written, and whether it is the first of its sentence."""
    end = 0
    for found in words_in(text):
        first = not end or bool(_SENTENCE_END.search(text, end, found.start()))
        end = found.end()
        parts = split(found[0])
        originals = _HYPHEN.split(found[0])
        alike = len(parts) == len(originals)
        for at, part in enumerate(parts):
            yield part, originals[at] if alike else part, first and not at


def split(word: str) -> list[str]:
    """A word as it is kept; a sign is kept whole."""
    if is_sign(word):
        return [fold(word)[:LONGEST_WORD]]
    parts: list[str] = []
    for part in _HYPHEN.split(fold(word)):
        if _UNSPACED.search(part):
            parts += part
        elif part:
            parts.append(part[:LONGEST_WORD])
    return parts


def term_pieces(term: Term) -> list[str]:
    return [piece for word in term.words for piece in split(word)]


def _written_pieces(term: Term) -> Iterator[tuple[str, str]]:
    for word in term.words:
        if is_sign(word):
            yield split(word)[0], word
        else:
            yield from ((piece, written) for piece, written, _ in _as_written(word))


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
