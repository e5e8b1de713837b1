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
from telegram_assistant.language.signatures import bands, same_story

WORDS_WEIGH = 6.0  # times as much as meaning, where a post has all words of the query
LOOKED_AT = 10  # best posts by words
CLOSE = 0.3  # between the farthest and the nearest: so near a post must be by a model that names no floor
FEWEST_WORDS = 6  # of a post that is found by meaning alone: "Thanks!" is near to every odd question
OTHER_ALPHABET = 0.8  # of what is near enough otherwise
CYRILLIC = frozenset({"ru", "uk", "be", "bg", "sr", "mk", "kk", "ky", "tg", "mn"})
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
) -> Scale:
    """Both scores are taken relative to their own best, so that it does not matter on which scale a model says "near".

    `meaning`: how near posts are; empty: by words alone. `floor`: how near a post without any of the words must be: the
    nearest of all may be far from what was asked for. None: the model has no floor, or a whole sentence was asked.
    """
    scores = [score_words(one, worths) for one in candidates]
    best = max((one.score for one in scores), default=0.0) or 1.0
    trust = WORDS_WEIGH * _trust(scores) if meaning else 1.0
    far, near = min(meaning.values(), default=0.0), max(meaning.values(), default=0.0)
    least = far + CLOSE * (near - far) if floor is None else floor
    apart = floor is not None and any(one.share >= FOUND for one in scores)
    return Scale(tuple(worths), trust / best, far, near, least, cyrillic, apart)


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
            score, by_words, by_meaning = scale.words * words + close, words > 0, candidate.post_id in meaning
            ranked.append(Ranked(candidate, score, by_words, by_meaning, related=scale.apart and not by_words))
    return sorted(ranked, key=order)


def _reach(candidate: Candidate, scale: Scale) -> float:
    """Texts in two alphabets have no word in common, and are the farther apart for it."""
    other = candidate.language and (candidate.language in CYRILLIC) != scale.cyrillic
    return OTHER_ALPHABET if other else 1.0


def order(one: Ranked) -> tuple[bool, float, float, UUID]:
    """The best first, of equals the newest; never by chance, so that pages fit together."""
    return one.related, -one.score, -one.candidate.posted_at.timestamp(), one.candidate.post_id


def _trust(scores: Sequence[ByWords]) -> float:
    """How far to go by words: as far as the best posts have them, by what the words are worth.

    Of a question in another language they have a number or a name at most, and the square makes nearly nothing of it.
    """
    best = sorted(scores, key=lambda one: -one.score)[:LOOKED_AT]
    return max((one.share for one in best), default=0.0) ** 2


@dataclass
class Story:
    """The best candidate, and the others that belong to it."""

    best: Ranked
    others: list[Candidate] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        return [self.best.candidate, *self.others]


def fold_stories(ranked: Iterable[Ranked]) -> list[Story]:
    """In their order, each story where its best candidate stands."""
    stories: list[Story] = []
    albums: dict[UUID, Story] = {}
    told: dict[bytes, Story] = {}
    for one in ranked:
        candidate = one.candidate
        story = albums.get(candidate.album_id) if candidate.album_id else None
        story = story or _told_before(candidate, told)
        if story is None:
            story = Story(one)
            stories.append(story)
        else:
            story.others.append(candidate)
        if candidate.album_id:
            albums.setdefault(candidate.album_id, story)
        for band in bands(candidate.signature):
            told.setdefault(band, story)
    return stories


def _told_before(candidate: Candidate, told: dict[bytes, Story]) -> Story | None:
    near = {id(story): story for band in bands(candidate.signature) if (story := told.get(band))}
    for story in near.values():
        if any(same_story(candidate, one) for one in story.candidates[:3]):
            return story
    return None
