"""Whether a query asks about now: then what is new counts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from telegram_assistant.domain.query import Clause, Query
from telegram_assistant.language.inflection import fold
from telegram_assistant.language.other_names import is_plain_word

# How old a post is when it counts for half as new. Single words only tell the time, and are not looked for.
_DAY = r"сегодня|сегодняшн\w+|сейчас|today|now|tonight|currently"
_TWO_DAYS = r"вчера|вчерашн\w+|yesterday"
_WEEK = r"последние|последних|свежие|недавно|недавние|latest|newest|recent|recently"
_PHRASES = r"этой неделе|эту неделю|за неделю|на днях|последнее время|this week"
_LONG_AGO = r"(?! (?:год|лет|десятилет|столет|век|years|decade))"
_SPANS = (
    (re.compile(rf"\b(?:{_DAY})\b"), timedelta(days=1)),
    (re.compile(rf"\b(?:{_TWO_DAYS})\b"), timedelta(days=2)),
    (re.compile(rf"\b(?:(?:{_WEEK}){_LONG_AGO}|{_PHRASES})\b"), timedelta(days=7)),
)
_TIME = re.compile(f"{_DAY}|{_TWO_DAYS}|{_WEEK}")


def half_life(query: Query) -> timedelta | None:
    """None: it asks about no time in particular, or says by a filter which."""
    if query.since or query.before:
        return None
    said = fold(query.words)
    return next((span for words, span in _SPANS if words.search(said)), None)


def without_time(query: Query) -> Query:
    """The query without its words of time, as long as others are left."""
    kept = tuple(clause for clause in query.clauses if not _tells_time(clause))
    return replace(query, clauses=kept) if kept else query


def _tells_time(clause: Clause) -> bool:
    return is_plain_word(clause) and bool(_TIME.fullmatch(fold(clause.options[0].words[0])))
