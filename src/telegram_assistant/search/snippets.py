"""The piece of a post that shows why it was found, with the words that were looked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from telegram_assistant.domain.query import Query, words_in
from telegram_assistant.domain.results import Passage, Snippet
from telegram_assistant.domain.signs import is_sign, signs_in
from telegram_assistant.language.lexemes import Lexicon, split, term_pieces

LENGTH = 240  # characters
LEAD = 60  # of them before the first word found
LONGEST = 20_000  # characters of a text that are looked through
# A word whose beginning is that of no wanted one is hardly a form of it; the dictionary is asked for the others only.
BEGINNING = 2


@dataclass(frozen=True, slots=True)
class Marker:
    """Knows the words that are looked for in a text."""

    lexicon: Lexicon
    lemmas: frozenset[str]
    forms: frozenset[str]
    beginnings: frozenset[str]
    alone: frozenset[str]  # lemmas that count wherever they stand
    rows: tuple[tuple[frozenset[str], ...], ...]  # other names of several words, which count side by side

    @classmethod
    def for_query(cls, query: Query, lexicon: Lexicon) -> Marker:
        terms = [term for clause in query.clauses for term in (*clause.options, *clause.others)]
        forms = {word for term in terms if term.exact for word in term_pieces(term)}
        wanted = [word for term in terms if not term.exact for word in term_pieces(term)]
        lemmas = {one for term in terms if not term.exact for some in lexicon.term_readings(term) for one in some}
        beginnings = {word[:BEGINNING] for word in (*lemmas, *wanted)}
        others = [lexicon.term_readings(term) for clause in query.clauses for term in clause.others]
        rows = tuple(tuple(map(frozenset, words)) for words in others if len(words) > 1)
        single = [words for words in others if len(words) == 1]
        asked = [lexicon.term_readings(term) for clause in query.clauses for term in clause.options]
        alone = {one for words in (*asked, *single) for some in words for one in some}
        return cls(lexicon, frozenset(lemmas), frozenset(forms), frozenset(beginnings), frozenset(alone), rows)

    def marks(self, word: str) -> set[str]:
        """Which of the wanted words this one is."""
        found: set[str] = set()
        for part in split(word):
            if part in self.forms:
                found.add(part)
            if part[:BEGINNING] in self.beginnings:
                found |= self.lemmas.intersection(self.lexicon.readings(part, word))
        return found

    def signs(self, text: str) -> list[_Mark]:
        """Hashtags and emoji that are looked for."""
        if not any(map(is_sign, self.forms)):
            return []
        marks = (_Mark(one.start(), one.end(), frozenset(split(one[0]))) for one in signs_in(text))
        return [mark for mark in marks if mark.words <= self.forms]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A word that was looked for, in a text."""

    start: int
    end: int
    words: frozenset[str]


def snippet(passages: Sequence[Passage], marker: Marker) -> Snippet:
    """Of the passage with the most of the wanted words, the first of equals."""
    best: tuple[int, Passage, list[_Mark]] | None = None
    for passage in passages:
        marks = _marks(passage.text[:LONGEST], marker)
        count = len({word for mark in marks for word in mark.words})
        if best is None or count > best[0]:
            best = count, passage, marks
    if best is None:
        return Snippet("")
    return _cut(best[1], best[2])


def _marks(text: str, marker: Marker) -> list[_Mark]:
    if not marker.lemmas and not marker.forms:
        return []
    found = [_Mark(one.start(), one.end(), frozenset(marker.marks(one[0]))) for one in words_in(text)]
    words = [one for at, one in enumerate(found) if one.words and _counts(found, at, marker)]
    signs = marker.signs(text)
    # A word inside a hashtag that is marked needs no mark of its own.
    words = [one for one in words if not any(sign.start < one.start < sign.end for sign in signs)] if signs else words
    return sorted((*words, *signs), key=lambda mark: mark.start)


def _counts(found: Sequence[_Mark], at: int, marker: Marker) -> bool:
    """Whether a word is looked for by itself, or as part of a name that stands here."""
    if not found[at].words.isdisjoint(marker.alone | marker.forms):
        return True
    return any(
        all(not part.isdisjoint(one.words) for part, one in zip(row, found[start : start + len(row)], strict=False))
        for row in marker.rows
        for start in range(max(0, at - len(row) + 1), at + 1)
        if start + len(row) <= len(found)
    )


def _cut(passage: Passage, marks: Sequence[_Mark]) -> Snippet:
    text = passage.text
    start = _word_start(text, _window(marks))
    end = _word_end(text, start + LENGTH)
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    spans = [(mark.start - start, mark.end - start) for mark in marks if mark.start >= start and mark.end <= end]
    return Snippet(
        text[start:end],
        tuple(spans),
        passage.origin,
        cut_before=bool(text[:start].strip()),
        cut_after=bool(text[end:].strip()),
    )


def _window(marks: Sequence[_Mark]) -> int:
    """Where to begin, so that the most of the wanted words are seen; the beginning of the text, if it is as good."""
    ends = [mark.end for mark in marks]

    def seen(start: int) -> int:
        inside = [mark for mark in marks[bisect_left(ends, start) :] if mark.start >= start]
        return len({word for mark in inside if mark.end <= start + LENGTH for word in mark.words})

    starts = [0, *(max(0, mark.start - LEAD) for mark in marks[:200])]
    return max(starts, key=lambda start: (seen(start), -start))


def _word_start(text: str, at: int) -> int:
    """The next beginning of a word, not far from here."""
    for place in range(at, min(at + LEAD, len(text))):
        if place == 0 or text[place - 1].isspace():
            return place
    return at


def _word_end(text: str, at: int) -> int:
    if at >= len(text):
        return len(text)
    for place in range(at, max(at - LEAD, 0), -1):
        if text[place].isspace():
            return place
    return at
