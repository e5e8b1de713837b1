"""Plans of the full-text index in SQL; every value is a parameter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from telegram_assistant.domain.query import Filters
from telegram_assistant.language.documents import channel_key, month_key
from telegram_assistant.language.lexemes import any_of, quoted
from telegram_assistant.language.plan import Either, Plan, Scored

FEW_CHANNELS = 50  # so many are looked up in the index together with the words
WEIGHTS = "{0.2,0.5,0.7,1.0}"  # of a page's text, of pictures, of tags, of the post itself (D, C, B, A)
ONCE = 0.6  # what ts_rank gives for a word that stands once in the post itself, about
MOST_MONTHS = 24  # that are looked up; a longer time is only checked
FOUND = ("post_id", "channel_id", "posted_at", "album_id", "length", "signature")


class Statement:
    """Conditions that a plan makes, and the ranks that it asks for."""

    def __init__(self, plan: Plan) -> None:
        self.values: list[Any] = []
        self._plan = plan
        # Written so, indexes of channels and times cannot be asked beside that of words: they would give nearly all.
        channel = "(channel_id + 0)" if plan.by_index else "channel_id"
        moment = "(posted_at + interval '0')" if plan.by_index else "posted_at"
        self.where = [f"{channel} = ANY({self.bind(list(plan.channels), 'bigint[]')})"]
        if not plan.deleted:
            self.where.append("NOT deleted")
        if plan.since is not None:
            self.where.append(f"{moment} >= {self.bind(plan.since, 'timestamptz')}")
        if plan.before is not None:
            self.where.append(f"{moment} < {self.bind(plan.before, 'timestamptz')}")
        self.where += self._narrowing(plan.only)
        self.where += [f"NOT ({condition})" for condition in self._narrowing(plan.without, every=False)]
        self.where += map(self.fits, plan.must)
        self.where += [f"NOT {self.fits(one)}" for one in plan.must_not]
        self._ranks = [self._rank(scored) for scored in plan.scored]

    def bind(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    def look_up(self, months: list[str]) -> None:
        """Candidates only: by the ways of the plan, in these months (none: at any time), in its channels if few."""
        if self._plan.ways:
            routes = [" AND ".join(map(self.fits, way)) for way in self._plan.ways]
            self.where.append(f"({' OR '.join(f'({route})' for route in routes)})")
        if months:
            self.where.append(self.fits(Either(forms=any_of(map(quoted, months)))))
        if self._plan.by_index and len(self._plan.channels) <= FEW_CHANNELS:
            keys = [quoted(channel_key(channel_id)) for channel_id in self._plan.channels]
            self.where.append(self.fits(Either(forms=any_of(keys))))

    def text(self, order: str = "") -> str:
        """Ranks are reckoned outside, for those that the limit leaves."""
        columns = ", ".join(FOUND)
        inner = f"SELECT {columns}, words, forms FROM search_documents WHERE {' AND '.join(self.where)} {order}"
        return f"SELECT {columns}, ARRAY[{', '.join(self._ranks)}]::real[] AS ranks FROM ({inner}) d"

    def fits(self, either: Either) -> str:
        found = [
            f"{column} @@ {self.bind(query, 'text')}::tsquery"
            for column, query in (("words", either.words), ("forms", either.forms))
            if query
        ]
        return f"({' OR '.join(found)})" if found else "false"

    def _narrowing(self, filters: Filters, *, every: bool = True) -> Iterator[str]:
        for column, values in (("tags", filters.tags), ("has", filters.has), ("marks", filters.marks)):
            if values:
                yield f"{column} {'@>' if every else '&&'} {self.bind(list(values), 'text[]')}"
        if filters.topics:
            yield f"topics && {self.bind(list(filters.topics), 'text[]')}"
        if filters.languages:
            yield f"language = ANY({self.bind(list(filters.languages), 'text[]')})"

    def _rank(self, scored: Scored) -> str:
        ranks: list[str] = []
        if scored.fits.words:
            query = f"{self.bind(scored.fits.words, 'text')}::tsquery"
            rank = f"ts_rank('{WEIGHTS}', words, {query})"
            # ts_rank does not look whether the words of a phrase stand side by side.
            ranks.append(f"CASE WHEN words @@ {query} THEN {rank} ELSE 0 END" if scored.phrase else rank)
        if scored.fits.forms:
            query = f"{self.bind(scored.fits.forms, 'text')}::tsquery"
            ranks.append(f"CASE WHEN forms @@ {query} THEN {ONCE} ELSE 0 END")
        return f"greatest({', '.join(ranks)})"


def months_between(since: datetime, until: datetime) -> list[str]:
    """Keys of the months from the one to the other, both included; none if there are too many to look up."""
    if until < since:
        return [month_key(since)]
    if until - since > timedelta(days=31 * MOST_MONTHS):
        return []
    days = range((until - since).days + 1)
    return list(dict.fromkeys(month_key(moment) for moment in (*(since + timedelta(days=day) for day in days), until)))
