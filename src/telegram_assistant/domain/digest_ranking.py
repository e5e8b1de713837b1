"""Which stories a digest tells: those that fit the topics, that the reader likes, that are new, that reach far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

MATCH, INTEREST, NOVELTY, REACH = 0.4, 0.2, 0.15, 0.25  # what each is worth, together 1
AGED = 0.5  # novelty of a story as old as the period
REPEATED = 0.85  # each further story of one channel counts for so much of the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A story, as far as it matters for its place."""

    key: UUID  # of the post that tells it best
    channel_id: int
    first_at: datetime  # when it was first told
    match: float = 1.0  # 0 to 1: how well it fits the best of the topics
    labels: tuple[str, ...] = ()  # its topics and tags
    views: int = 0
    forwards: int = 0
    channels: int = 1  # independent ones that tell it


@dataclass(frozen=True, slots=True)
class Placed:
    """A story with what speaks for it, each from 0 to 1."""

    candidate: Candidate
    match: float
    interest: float
    novelty: float
    reach: float

    @property
    def score(self) -> float:
        return MATCH * self.match + INTEREST * self.interest + NOVELTY * self.novelty + REACH * self.reach


def place(
    candidates: Sequence[Candidate],
    *,
    most: int,
    since: datetime,
    until: datetime,
    interests: Mapping[str, float] | None = None,
) -> list[Placed]:
    """The best first, among the first `most` channels take turns; never by chance."""
    likes = {name.casefold(): weight for name, weight in (interests or {}).items()}
    loudest = max((_noise(one) for one in candidates), default=0.0)
    length = max(1.0, (until - since).total_seconds())
    placed = [
        Placed(
            one,
            match=_unit(one.match),
            interest=_unit(max((likes.get(label.casefold(), 0.0) for label in one.labels), default=0.0)),
            novelty=1 - (1 - AGED) * _unit((until - one.first_at).total_seconds() / length),
            reach=_reach(one, loudest),
        )
        for one in candidates
    ]
    return _taking_turns(placed, most)


def _reach(one: Candidate, loudest: float) -> float:
    """Half for how many tell it, half for how many see it beside the others."""
    told = 1 - 1 / max(1, one.channels)
    return told / 2 + (_noise(one) / loudest / 2 if loudest else 0.0)


def _noise(one: Candidate) -> float:
    """A forward is worth a hundred views; a logarithm, because the largest channels have a thousand times more."""
    return math.log1p(max(0, one.views) + 100 * max(0, one.forwards))


def _taking_turns(placed: Sequence[Placed], most: int) -> list[Placed]:
    rest = sorted(placed, key=lambda one: (-one.score, -one.candidate.first_at.timestamp(), one.candidate.key))
    taken: Counter[int] = Counter()
    ordered: list[Placed] = []
    while rest and len(ordered) < most:
        best = max(range(len(rest)), key=lambda at: (_worth(rest[at], taken), -at))
        chosen = rest.pop(best)
        taken[chosen.candidate.channel_id] += 1
        ordered.append(chosen)
    return ordered + rest


def _worth(one: Placed, taken: Counter[int]) -> float:
    return one.score * REPEATED ** taken[one.candidate.channel_id]


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
