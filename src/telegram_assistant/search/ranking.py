"""Which of the candidates come first: by words, by meaning, and by both; and which of them tell the same story.

By words: what the words of the query that a post has are worth, more for those that stand in it often, less the longer
it is (BM25 in its form and, measured, in its results). By both: decision 0012 says why it is reckoned so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import msgspec

from telegram_assistant.language.documents import Candidate

WORDS_WEIGH = 6.0  # times as much as meaning, where a post has all words of the query
FOREIGN_WEIGH = 2.0  # the same for translations of its words
LOOKED_AT = 10  # best posts by words
CLOSE = 0.3  # between the farthest and the nearest: so near a post must be by a model that names no floor
FEWEST_WORDS = 6  # of a post that is found by meaning alone: "Thanks!" is near to every odd question
OTHER_ALPHABET = 0.8  # of what is near enough otherwise
CYRILLIC = frozenset({"ru", "uk", "be", "bg", "sr", "mk", "kk", "ky", "tg", "mn"})
OLD = 0.3  # of its score, where the query asks about now
FOUND = 0.5  # share of the query: where a post has so much of it, what has no word of it is only related


@dataclass(frozen=True, slots=True)
class ByWords:
    """How well a post fits the words: `score` to compare with others, `share` of the query that it has."""

    score: float
    share: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place."""

    candidate: Candidate
    score: float
    by_words: bool
    by_meaning: bool
    related: bool = False  # has none of the words, while others have them


def in_time(candidate: Candidate) -> Ranked:
    """Where the newest come first."""
    return Ranked(candidate, candidate.posted_at.timestamp(), by_words=True, by_meaning=False)


class Scale(msgspec.Struct, frozen=True, array_like=True):
    """What scores are relative to: later pages go by that of the first, also when posts came or went meanwhile."""

    worths: tuple[float, ...]  # of the clauses
    words: float  # by which a score by words is multiplied
    far: float
    near: float
    least: float = 0.0  # so near must be what has none of the words
    cyrillic: bool = False  # the query is written so
    apart: bool = False  # what has none of them comes after what has some
    now: float = 0.0  # seconds, as timestamps count
    half_life: float = 0.0  # of a post that counts for how new it is; 0: it does not matter
    foreign: float | None = None  # instead of `words` for posts in the other alphabet, where the query was translated


def score_words(candidate: Candidate, worths: Sequence[float]) -> ByWords:
    """`worths` of the clauses, in the order of the candidate's ranks."""
    total = sum(worths)
    if not total or not any(candidate.ranks):
        return ByWords(0.0, 0.0)
    found = sum(worth * rank for worth, rank in zip(worths, candidate.ranks, strict=True))
    have = sum(worth for worth, rank in zip(worths, candidate.ranks, strict=True) if rank > 0)
    share = have / total
    # Who looks for two words means both: one of them many times is less.
    return ByWords(found / total / (1 + math.log1p(candidate.length)) * math.sqrt(share), share)


def scale_of(
    candidates: Sequence[Candidate],
    worths: Sequence[float],
    meaning: Mapping[UUID, float],
    floor: float | None = None,
    *,
    cyrillic: bool = False,
    translated: bool = False,
) -> Scale:
    """Both scores are taken relative to their own best, so that it does not matter on which scale a model says "near".

    `meaning`: how near posts are; empty: by words alone. `floor`: how near a post without any of the words must be: the
    nearest of all may be far from what was asked for. None: the model has no floor, or a whole sentence was asked.
    `translated`: the words were looked for in the other alphabet too. Of several translations one is right, so they are
    trusted less; but what has them is no chance meeting, so without the square.
    """
    scores = [score_words(one, worths) for one in candidates]
    others = [_other_alphabet(one, cyrillic=cyrillic) for one in candidates] if translated else [False] * len(scores)
    best = max((one.score for one in scores), default=0.0) or 1.0
    own = _share([score for score, other in zip(scores, others, strict=True) if not other])
    foreign = _share([score for score, other in zip(scores, others, strict=True) if other])
    # Of a question in another language posts have a name or a number at most: the square makes nearly nothing of it.
    trust, less = (WORDS_WEIGH * own**2, FOREIGN_WEIGH * foreign) if meaning else (1.0, 1.0)
    far, near = min(meaning.values(), default=0.0), max(meaning.values(), default=0.0)
    least = far + CLOSE * (near - far) if floor is None else floor
    apart = floor is not None and any(one.share >= FOUND for one in scores)
    other = less / best if translated else None
    return Scale(tuple(worths), trust / best, far, near, least, cyrillic, apart, foreign=other)


def rank(
    candidates: Sequence[Candidate],
    worths: Sequence[float],
    meaning: Mapping[UUID, float],
    scale: Scale | None = None,
) -> list[Ranked]:
    """The best first, without those that only nearly mean it. `scale`: None for that of these candidates."""
    scale = scale or scale_of(candidates, worths, meaning)
    ranked = []
    for candidate in candidates:
        words = score_words(candidate, scale.worths).score
        nearness, close = meaning.get(candidate.post_id, scale.far), 1.0
        if scale.near > scale.far:
            close = (nearness - scale.far) / (scale.near - scale.far)
        means_it = nearness >= scale.least * _reach(candidate, scale) and candidate.length >= FEWEST_WORDS
        if words > 0 or means_it or not meaning:
            score = (_weight(candidate, scale) * words + close) * _freshness(candidate, scale)
            by_words, by_meaning = words > 0, candidate.post_id in meaning
            ranked.append(Ranked(candidate, score, by_words, by_meaning, related=scale.apart and not by_words))
    return sorted(ranked, key=order)


def _weight(candidate: Candidate, scale: Scale) -> float:
    if scale.foreign is None or not _other_alphabet(candidate, cyrillic=scale.cyrillic):
        return scale.words
    return scale.foreign


def _freshness(candidate: Candidate, scale: Scale) -> float:
    """From 1 for what was posted now to a share for what is old, where the query asks about now."""
    if not scale.half_life:
        return 1.0
    age = max(0.0, scale.now - candidate.posted_at.timestamp())
    return OLD + (1 - OLD) * math.exp2(-age / scale.half_life)


def _reach(candidate: Candidate, scale: Scale) -> float:
    """Texts in two alphabets have no word in common, and are the farther apart for it."""
    return OTHER_ALPHABET if _other_alphabet(candidate, cyrillic=scale.cyrillic) else 1.0


def _other_alphabet(candidate: Candidate, *, cyrillic: bool) -> bool:
    return bool(candidate.language) and (candidate.language in CYRILLIC) != cyrillic


def order(one: Ranked) -> tuple[bool, float, float, UUID]:
    """The best first, of equals the newest; never by chance, so that pages fit together."""
    return one.related, -one.score, -one.candidate.posted_at.timestamp(), one.candidate.post_id


def _share(scores: Sequence[ByWords]) -> float:
    """How far to go by words: as far as the best posts have them, by what the words are worth."""
    best = sorted(scores, key=lambda one: -one.score)[:LOOKED_AT]
    return max((one.share for one in best), default=0.0)


@dataclass
class Story:
    """The best candidate, and the others that belong to it."""

    best: Ranked
    others: list[Candidate] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        return [self.best.candidate, *self.others]


def fold_stories(ranked: Iterable[Ranked], *, by_story: bool = True) -> list[Story]:
    """In their order, each story where its best candidate stands. The posts of an album belong together."""
    stories: list[Story] = []
    known: dict[UUID, Story] = {}
    for one in ranked:
        own = [id_ for id_ in (one.candidate.album_id, one.candidate.story_id if by_story else None) if id_]
        story = next((known[id_] for id_ in own if id_ in known), None)
        if story is None:
            story = Story(one)
            stories.append(story)
        else:
            story.others.append(one.candidate)
        for id_ in own:
            known.setdefault(id_, story)
    return stories
