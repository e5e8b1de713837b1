"""What a user is interested in: 0.4 queries + 0.3 views + 0.3 decay over 30 days, normalised (SPEC 8).

Counts fade too: of what was done a month ago a third is left. What a person chose stands.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

QUERIES, VIEWS, RECENT = 0.4, 0.3, 0.3
DECAY = timedelta(days=30)
LEAST_WEIGHT = 0.02  # below that it is forgotten
MOST_TOPICS = 200  # of one person
LONGEST_TOPIC = 80  # characters
MOST_COUNTED = 1000.0
LONGEST_QUERY = 3  # words of a query that are a topic by themselves
FRESH = timedelta(days=1)  # after that a post is worth half


class Act(StrEnum):
    """What a user did that shows an interest."""

    SEARCH = "search"
    VIEW = "view"
    CLICK = "click"  # on a post of a digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """A topic, or a word that is none; counts as they were at `last_at`."""

    topic: str
    queries: float = 0.0
    views: float = 0.0
    chosen: float | None = None  # by the person: 0 (never) to 1; None: by what is done
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Weighed:
    """An interest and what it weighs now."""

    interest: Interest
    weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A post, as far as it matters for what to recommend."""

    labels: frozenset[str]  # topics and tags
    posted_at: datetime


def fading(since: datetime, now: datetime) -> float:
    """What is left of 1."""
    return math.exp(-max(0.0, (now - since) / DECAY))


def weigh(interests: Iterable[Interest], now: datetime) -> list[Weighed]:
    """The strongest first; the strongest of those that were learned weighs 1."""
    known = list(interests)
    left = {one.topic: fading(one.last_at, now) for one in known}
    queries = max((one.queries * left[one.topic] for one in known), default=0.0) or 1.0
    views = max((one.views * left[one.topic] for one in known), default=0.0) or 1.0
    learned = {
        one.topic: QUERIES * one.queries * left[one.topic] / queries
        + VIEWS * one.views * left[one.topic] / views
        + RECENT * left[one.topic]
        for one in known
        if one.chosen is None
    }
    top = max(learned.values(), default=0.0) or 1.0
    weighed = [Weighed(one, learned[one.topic] / top if one.chosen is None else one.chosen) for one in known]
    return sorted(weighed, key=lambda one: (-one.weight, one.interest.topic))


def weights(interests: Iterable[Interest], now: datetime) -> dict[str, float]:
    """By topic, without what counts for nothing."""
    return {one.interest.topic: one.weight for one in weigh(interests, now) if one.weight >= LEAST_WEIGHT}


def clean_topic(topic: str) -> str:
    """As it is kept; empty if nothing is left."""
    return " ".join(topic.split()).casefold()[:LONGEST_TOPIC].strip()


def topics_of_query(words: Sequence[str], found: Sequence[str]) -> tuple[str, ...]:
    """What a search is about: its own few words, and the topics that most of what it found has."""
    own = " ".join(words)
    short = bool(words) and len(words) <= LONGEST_QUERY
    return tuple(dict.fromkeys(topic for topic in (own if short else "", *found[:2]) if topic))


def fit(labels: Collection[str], likes: Mapping[str, float]) -> float:
    """How well a post fits, 0 to 1: each interest that it meets leaves less to wish for."""
    missing = 1.0
    for label in labels:
        missing *= 1 - min(0.99, likes.get(label, 0.0))
    return 1 - missing


def score(post: Candidate, likes: Mapping[str, float], now: datetime) -> float:
    """What fits and is new comes first."""
    age = max(0.0, (now - post.posted_at) / FRESH)
    return fit(post.labels, likes) * math.pow(0.5, age)
