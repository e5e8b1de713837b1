"""How a query is put to the full-text index: what must fit, which ways lead to candidates, what each word is worth.

Ranking every post that has one of the words would take longest for the words that say least. So candidates are the
posts with all words, those with any rare one, and those with two of the less rare ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations

from telegram_assistant.domain.query import NO_FILTERS, Clause, Filters, Query
from telegram_assistant.language.documents import filter_key
from telegram_assistant.language.lexemes import Lexicon, Wanted, any_of, quoted

MOST_CANDIDATES = 1_000  # that rare words may bring together
MOST_PAIRS = 6
COMMON = 0.2  # share of all documents; a word of more of them is looked for only if there is no other
SELECTIVE = 0.1  # a filter that lets more documents pass is quicker checked than looked up
TOGETHER = 4.0  # words of one query meet in posts so many times more often than by chance


@dataclass(frozen=True, slots=True)
class Counts:
    """In how many documents words and filters stand; one that is not listed stands in next to none."""

    total: int = 0
    documents: Mapping[str, int] = field(default_factory=dict)

    def having(self, wanted: Wanted) -> float:
        """At most so many documents fit."""
        return self._having((*wanted.lemmas, *wanted.translations))

    def _having(self, options: Sequence[tuple[tuple[str, ...], ...]]) -> float:
        common = self.documents.get
        each = [min(sum(common(one, 0) for one in lemmas) for lemmas in words) for words in options]
        return float(min(self.total, sum(each)))

    def of_all(self, several: Sequence[Wanted]) -> float:
        """About how many documents have all of them."""
        each = [self.having(wanted) for wanted in several]
        by_chance = math.prod(TOGETHER * one / max(1, self.total) for one in each) * self.total / TOGETHER
        return min(by_chance, *each) if each else float(self.total)

    def worth(self, wanted: Wanted) -> float:
        """What a word tells: nothing if every document has it."""
        return self._worth(wanted.lemmas)

    def worth_of_translations(self, wanted: Wanted) -> float:
        return self._worth(wanted.translations)

    def _worth(self, options: Sequence[tuple[tuple[str, ...], ...]]) -> float:
        found = self._having(options)
        return math.log(1 + (max(0.0, self.total - found) + 0.5) / (found + 0.5))


@dataclass(frozen=True, slots=True)
class Either:
    """Fits by the dictionary forms or by the forms as written; an empty one never fits."""

    words: str = ""
    forms: str = ""


@dataclass(frozen=True, slots=True)
class Scored:
    """A clause to rank by; `foreign`: its translations, and how much more or less they tell."""

    fits: Either
    options: tuple[str, ...]  # `tsquery`s of its words, each ranked by itself
    phrase: bool
    worth: float
    others: str = ""  # a `tsquery` for other names, which weigh less
    foreign: str = ""
    foreign_weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A query for the index. Of `ways` one must fit, in all its parts; none: all that fits the rest."""

    channels: tuple[int, ...]
    must: tuple[Either, ...] = ()
    must_not: tuple[Either, ...] = ()
    ways: tuple[tuple[Either, ...], ...] = ()
    scored: tuple[Scored, ...] = ()
    only: Filters = NO_FILTERS
    without: Filters = NO_FILTERS
    since: datetime | None = None
    before: datetime | None = None
    deleted: bool = False
    expected: float = 0.0  # documents that the index gives, about
    passing: float = 1.0  # the share of them that the filters let pass

    @property
    def by_index(self) -> bool:
        """Whether anything in it is rare enough to be looked up."""
        return bool(self.must or self.ways)

    @property
    def excludes(self) -> bool:
        """Whether something keeps a post out that would fit otherwise."""
        return bool(self.must_not) or self.without != NO_FILTERS


def keys_of(query: Query, lexicon: Lexicon) -> set[str]:
    """Whose counts a plan needs."""
    wanted = [lexicon.wanted(clause) for clause in query.clauses]
    options = [words for want in wanted for words in (*want.lemmas, *want.translations)]
    lemmas = {one for words in options for lemmas in words for one in lemmas}
    return lemmas | {key for keys in _filter_keys(query.only) for key in keys}


def make_plan(query: Query, lexicon: Lexicon, counts: Counts, channels: Sequence[int]) -> Plan:
    """`channels`: those that may be seen and are asked for."""
    read = [(clause, lexicon.wanted(clause)) for clause in query.clauses]
    clauses = [(clause, wanted) for clause, wanted in read if wanted.words or wanted.forms]
    required = [wanted for clause, wanted in clauses if clause.required]
    kept = _telling(clauses, counts)
    loose = sorted((wanted for clause, wanted in kept if not clause.required), key=counts.having)
    unwanted = [lexicon.wanted(Clause((term,))) for term in query.unwanted]
    filters = [(keys, sum(counts.documents.get(key, 0) for key in keys)) for keys in _filter_keys(query.only)]
    rare = [(keys, found) for keys, found in filters if found <= SELECTIVE * counts.total]
    return Plan(
        channels=tuple(channels),
        must=(*map(_either, required), *(Either(forms=any_of(map(quoted, keys))) for keys, _ in rare)),
        must_not=tuple(map(_either, unwanted)),
        # What must be there narrows enough: then the other words only rank.
        ways=() if required or not loose else tuple(_ways(loose, counts)),
        scored=tuple(_scored(wanted, counts) for _, wanted in kept),
        only=query.only,
        without=query.without,
        since=query.since,
        before=query.before,
        deleted=query.wants_deleted,
        expected=min([counts.of_all(required or loose), *(float(found) for _, found in rare)]),
        passing=math.prod(found / counts.total for keys, found in filters if (keys, found) not in rare),
    )


def _telling(clauses: list[tuple[Clause, Wanted]], counts: Counts) -> list[tuple[Clause, Wanted]]:
    """Without what says nothing, and without what nearly all documents say, as long as something is left."""
    full = [pair for pair in clauses if pair[0].required or not pair[1].empty] or clauses
    limit = max(float(MOST_CANDIDATES), COMMON * counts.total)
    telling = [pair for pair in full if pair[0].required or counts.having(pair[1]) <= limit]
    return telling if any(counts.having(wanted) for _, wanted in telling) else full


def _ways(loose: Sequence[Wanted], counts: Counts) -> Iterator[tuple[Either, ...]]:
    """The rarest first."""
    yield tuple(_either(wanted) for wanted in loose)
    room = float(MOST_CANDIDATES)
    common = list(loose)
    while len(loose) > 1 and common and counts.having(common[0]) <= room:
        room -= counts.having(common[0])
        yield (_either(common.pop(0)),)
    pairs = sorted(combinations(common, 2), key=counts.of_all)
    for pair in pairs[:MOST_PAIRS] if len(loose) > 2 else ():
        room -= counts.of_all(pair)
        if room < 0:
            return
        yield tuple(map(_either, pair))


def _filter_keys(filters: Filters) -> Iterator[list[str]]:
    """Of each list one must fit."""
    for name, values in (("topic", filters.topics), ("lang", filters.languages)):
        if values:
            yield [filter_key(name, value) for value in values]
    for name, values in (("tag", filters.tags), ("has", filters.has), ("is", filters.marks)):
        yield from ([filter_key(name, value)] for value in values)


def _scored(wanted: Wanted, counts: Counts) -> Scored:
    worth = counts.worth(wanted)
    # PostgreSQL divides a rank by the number of words, and here one of them is enough.
    weight = counts.worth_of_translations(wanted) / worth * len(wanted.translations) / 2 if wanted.foreign else 1.0
    fits = Either(wanted.words, wanted.forms)
    return Scored(
        fits,
        wanted.options,
        wanted.phrase,
        worth,
        others=wanted.others,
        foreign=wanted.foreign,
        foreign_weight=weight,
    )


def _either(wanted: Wanted) -> Either:
    return Either(any_of(filter(None, (wanted.words, wanted.others, wanted.foreign))), wanted.forms)
