"""Other names of the same: abbreviations, short and full names, in Russian and in English.

From a reviewed table, and from the archive where a text itself says so: "Центральный банк (ЦБ)".
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from telegram_assistant.domain.query import Clause, Query, Term, words_in
from telegram_assistant.domain.signs import is_sign
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.lexemes import Lexicon, term_pieces

LONGEST_NAME = 8  # words
FEWEST_POSTS, FEWEST_CHANNELS = 3, 2  # that must say that two names are one
CLEARLY = 2  # times as often as the next meaning of the same letters
SAME_WORD = 3  # letters that the forms of a word have in common
_LETTERS = "[A-Z\u0410-\u042f\u0401]"
_AFTER = re.compile(rf"([^()\n]{{4,120}}) \(({_LETTERS}{{2,7}})\)")
_BEFORE = re.compile(rf"(?<!\w)({_LETTERS}{{2,7}}) \(([^()\n]{{4,120}})\)")
_PARTS = re.compile(r"[-\s]")

Key = tuple[str, ...]
Learnt = Mapping[tuple[str, str], int]  # by letters and full name: how often it was said


def pairs_in(text: str) -> set[tuple[str, str]]:
    """Abbreviations with what they stand for, folded, where a text has one in brackets after the other."""
    after = ((letters, _full_name(words, letters)) for words, letters in _AFTER.findall(text))
    before = ((letters, _full_name(words, letters, whole=True)) for letters, words in _BEFORE.findall(text))
    return {(fold(letters), name) for letters, name in (*after, *before) if name}


def _full_name(words: str, letters: str, *, whole: bool = False) -> str:
    """The last of the words, if they begin with these letters; short words between them may have none."""
    parts = [part for found in words_in(fold(words)) for part in found[0].split("-")]
    left, at = list(fold(letters)), len(parts)
    while left and at:
        at -= 1
        if parts[at].startswith(left[-1]):
            left.pop()
        elif len(parts[at]) > 3 or at == len(parts) - 1:
            return ""
    return "" if left or (whole and at) or len(parts) - at < 2 else " ".join(parts[at:])


def counted(said: Iterable[tuple[int, str]]) -> dict[tuple[str, str], int]:
    """Texts by channel: pairs that enough posts of several channels have, each name in its commonest form."""
    names: dict[tuple[str, Key], Counter[str]] = defaultdict(Counter)
    channels: dict[tuple[str, Key], set[int]] = defaultdict(set)
    for channel_id, text in said:
        for letters, name in pairs_in(text):
            key = letters, tuple(word[:SAME_WORD] for word in name.split())
            names[key][name] += 1
            channels[key].add(channel_id)
    enough = {key for key in names if names[key].total() >= FEWEST_POSTS and len(channels[key]) >= FEWEST_CHANNELS}
    return {(key[0], names[key].most_common(1)[0][0]): names[key].total() for key in enough}


@cache
def _table() -> tuple[list[list[str]], dict[str, str]]:
    read = tomllib.loads(files(__package__).joinpath("other_names.toml").read_text("utf-8"))
    return read["groups"], read["typed"]


@cache
def other_names(name: str) -> tuple[str, ...]:
    """Those of one word in the table, of a name as it is written there."""
    found = next((names for names in _table()[0] if name in names), [])
    return tuple(one for one in found if one != name and " " not in one)


class OtherNames:
    """Finds the names of a query that have others."""

    def __init__(self, lexicon: Lexicon, learnt: Learnt | None = None) -> None:
        groups, self._typed = _table()
        self._lexicon = lexicon
        self._groups: dict[Key, list[Term]] = {}
        known = {fold(name) for names in groups for name in names}
        for names in (*groups, *(pair for pair in _clear(learnt or {}) if pair[0] not in known)):
            terms = [Term(tuple(_PARTS.split(name))) for name in names]
            for term in terms:
                for key in self._keys(term):
                    self._groups.setdefault(key, [one for one in terms if one is not term])

    def widened(self, query: Query) -> Query:
        """Every name in plain words may be another one as well; what is quoted or insisted on is meant as written.

        Of a name of several words each word may be the other name: so a post that has it has them all.
        """
        clauses = list(query.clauses)
        at = 0
        while at < len(clauses):
            length, others = self._longest(clauses, at)
            for place in range(at, at + length):
                clauses[place] = replace(clauses[place], others=others)
            at += length or 1
        return replace(query, clauses=tuple(clauses))

    def _longest(self, clauses: Sequence[Clause], at: int) -> tuple[int, tuple[Term, ...]]:
        """How many clauses from here are a name, and its others."""
        words = []
        for clause in clauses[at : at + LONGEST_NAME]:
            if not is_plain_word(clause):
                break
            words.append(clause.options[-1].words[0])  # the last one is as the archive spells it
        for length in range(len(words), 0, -1):
            name = self._typed.get(words[0]) if length == 1 else None
            term = Term((name,)) if name else Term(tuple(words[:length]))
            for key in self._keys(term):
                if others := self._groups.get(key):
                    return length, (*others, *((term,) if name else ()))
        return 0, ()

    def _keys(self, term: Term) -> Iterator[Key]:
        """As it is written, and in dictionary forms."""
        written = tuple(term_pieces(term))
        yield written
        yield tuple(self._lexicon.lemmas(word)[0] for word in written)


def _clear(learnt: Learnt) -> Iterator[tuple[str, str]]:
    """Letters that stand for one thing, or nearly always for one."""
    meanings: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (letters, name), posts in learnt.items():
        meanings[letters].append((posts, name))
    for letters, found in meanings.items():
        (most, name), *others = sorted(found, reverse=True)
        if not others or most >= CLEARLY * others[0][0]:
            yield letters, name


def is_plain_word(clause: Clause) -> bool:
    """Whether it may be read otherwise: a phrase, or what is insisted on, is meant as it is written."""
    single = all(len(term.words) == 1 and not is_sign(term.words[0]) for term in clause.options)
    return single and not (clause.required or clause.quoted)
