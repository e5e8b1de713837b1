"""Which posts tell of the same event, in any channel: each says most of what the other begins with.

A post is kept as its outline: its telling words in their order, each with how rare it is, in four bytes. So two posts
are compared in microseconds, without asking for anything else. Near-copies are found by their signatures, too: they
also meet after a week.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar
from uuid import UUID, uuid4

from telegram_assistant.language.signatures import band_keys, same_story
from telegram_assistant.language.signatures import likeness as same_text

FEWEST = 5  # telling words of a post that can be compared
MOST = 250
LEAD, BODY = 10, 30  # words that a post begins with
LEAD_FOUND, BODY_FOUND = 0.33, 0.36  # by rarity, of these words that the other post has
OWN_FOUND = 0.7  # of the lead, where it is the same channel: it repeats its own forms
KEYS = 8  # words that lead to a post
KEYS_FROM = 40  # the first words
SAME_TIME = timedelta(hours=36)
HEADLINE = 15  # words by which stories are put under one headline
SAME_EVENT = 0.25  # cosine of these words
SAME_NAMES = 0.2  # cosine of all that they begin with, where the rarest words count most
MOST_COMPARED = 6  # posts of a story that a new one is compared with
_NUMBER, _RARITY = 0x80, 0x7F
_FINE = 10  # steps of rarity
_CACHED = 5_000


@dataclass(frozen=True, slots=True)
class Rarity:
    """In how many of the documents a word stands."""

    documents: int = 0
    counts: Mapping[str, int] | None = None

    def __call__(self, word: str) -> float:
        count = self.counts.get(word, 0) if self.counts else 0
        return math.log((max(self.documents, count) + 1_000) / (count + 1))


EVEN = Rarity()  # before any word was counted


@dataclass(frozen=True, slots=True)
class Outline:
    """What a post says, ready to be compared."""

    lead: tuple[tuple[int, int], ...]  # the words that it begins with, and how rare each is
    words: frozenset[int]
    numbers: frozenset[int]  # that it begins with


@dataclass(frozen=True, slots=True)
class Telling:
    """A post, as far as it matters for stories."""

    post_id: UUID
    channel_id: int
    posted_at: datetime
    signature: bytes
    outline: bytes
    story_id: UUID | None = None


def outline_of(words: Iterable[str], rarity: Rarity) -> bytes:
    """Of the telling words of a text, in their dictionary forms; empty for too few to be told from others."""
    telling = list(dict.fromkeys(words))[:MOST]
    if len(telling) < FEWEST:
        return b""
    return array("I", (_code(word) | min(_RARITY, round(_FINE * rarity(word))) for word in telling)).tobytes()


@lru_cache(maxsize=50_000)
def _code(word: str) -> int:
    number = _NUMBER if word[0].isdigit() else 0
    return int.from_bytes(blake2b(word.encode(), digest_size=3).digest()) << 8 | number


@lru_cache(maxsize=_CACHED)
def read_outline(raw: bytes) -> Outline:
    codes = array("I", raw)
    begins = codes[:BODY]
    return Outline(
        lead=_weighed(begins),
        words=frozenset([code >> 8 for code in codes]),
        numbers=frozenset([code >> 8 for code in begins if code & _NUMBER]),
    )


def _rarest(raw: bytes) -> list[int]:
    return sorted(array("I", raw)[:KEYS_FROM], key=_RARITY.__and__, reverse=True)[:KEYS]


def day_key(word: int, day: int) -> str:
    return f"~{word:x}.{day:x}"


def keys_of(post: Telling) -> tuple[str, ...]:
    """What the index keeps for a post: words by which posts are found that may tell the same."""
    day = day_of(post.posted_at)
    return *(day_key(code >> 8, day) for code in _rarest(post.outline)), *band_keys(post.signature)


def keys_near(post: Telling) -> tuple[str, ...]:
    """What to look for, to find those that may tell the same."""
    day, rarest = day_of(post.posted_at), _rarest(post.outline)
    near = (day_key(code >> 8, one) for one in (day - 1, day, day + 1) for code in rarest)
    return *near, *band_keys(post.signature)


def day_of(moment: datetime) -> int:
    return moment.astimezone(UTC).toordinal()


def likeness(one: Telling, other: Telling) -> float:
    """How surely both tell the same: 0 if they do not, more than 1 for nearly the same text."""
    if same_story(one, other):
        return 1.0 + same_text(one.signature, other.signature)
    if not (one.outline and other.outline) or abs(one.posted_at - other.posted_at) > SAME_TIME:
        return 0.0
    least = OWN_FOUND if one.channel_id == other.channel_id else LEAD_FOUND
    own = read_outline(one.outline)
    # Nearly all that are compared end here: the rest is not even read.
    if _found(_weighed(array("I", other.outline[: 4 * LEAD])), own.words) < least:
        return 0.0
    return _alike(own, read_outline(other.outline), least)


def _alike(one: Outline, other: Outline, least: float) -> float:
    """Each says what the other begins with, and there is no number on both sides that the other does not have."""
    lead = min(_found(one.lead[:LEAD], other.words), _found(other.lead[:LEAD], one.words))
    body = min(_found(one.lead, other.words), _found(other.lead, one.words))
    if lead < least or body < BODY_FOUND or (one.numbers - other.words and other.numbers - one.words):
        return 0.0
    return (lead + body) / 2


def _weighed(codes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Words, and how rare each is."""
    return tuple([(code >> 8, code & _RARITY) for code in codes])


def _found(words: Sequence[tuple[int, int]], others: frozenset[int]) -> float:
    total = found = 0
    for word, rarity in words:
        total += rarity
        if word in others:
            found += rarity
    return found / total if total else 0.0


def place(post: Telling, others: Iterable[Telling], former: Telling | None = None) -> UUID | None:
    """The story of a post: that of those which tell the same, or a new one. None: it says too little.

    `others`: posts that were placed, and may tell the same. Most of those of a story that it is compared with must do
    so, so that stories do not grow from one event into the next. `former`: the post before it was edited; it leaves its
    story only for good reason.
    """
    if not post.outline and not post.signature:
        return None
    near: dict[UUID, dict[UUID, Telling]] = defaultdict(dict)
    for one in others:
        if one.story_id is not None and (former is None or one.post_id != former.post_id):
            near[one.story_id][one.post_id] = one
    fitting: dict[UUID, float] = {}
    for story_id, members in near.items():
        compared = list(members.values())
        if len(compared) > MOST_COMPARED:
            compared = sorted(compared, key=lambda one: abs(one.posted_at - post.posted_at))[:MOST_COMPARED]
        alike = [likeness(post, one) for one in compared]
        if 2 * sum(map(bool, alike)) > len(alike):
            fitting[story_id] = sum(alike) / len(alike)
    kept = former.story_id if former is not None else None
    if kept is not None and former is not None and (kept in fitting or likeness(post, former)):
        return kept
    return max(fitting, key=fitting.__getitem__, default=None) or uuid4()


class Outlined(Protocol):
    """A post of a story."""

    @property
    def channel_id(self) -> int: ...
    @property
    def posted_at(self) -> datetime: ...
    @property
    def outline(self) -> bytes: ...


P = TypeVar("P", bound=Outlined)


def gather(stories: Iterable[Sequence[P]]) -> list[list[Sequence[P]]]:
    """Stories of one time that belong under one headline (the vote, the reactions to it), the most told ones first.

    They begin with the same rare words; or, further on, name the same rarest ones. Looser than a story: for the view of
    a day, and nothing is stored of it.
    """
    return _together(_together([[story] for story in stories], _BY_HEADLINE), _BY_NAMES)


@dataclass(frozen=True, slots=True)
class _By:
    """How stories are compared: by so many first words, by this power of their rarity, at least so alike."""

    words: int
    power: int
    least: float


_BY_HEADLINE = _By(HEADLINE, 1, SAME_EVENT)
_BY_NAMES = _By(BODY, 3, SAME_NAMES)


def _together(groups: Iterable[list[Sequence[P]]], by: _By) -> list[list[Sequence[P]]]:
    events: list[_Event[P]] = []
    by_word: dict[int, list[int]] = defaultdict(list)
    for group in sorted(groups, key=_told):
        words = _words_of(group, by)
        nearest = _nearest(words, events, by_word, by.least)
        if nearest is None:
            nearest = len(events)
            events.append(_Event())
        events[nearest].stories += group
        for word, weight in words.items():
            if word not in events[nearest].words:
                by_word[word].append(nearest)
            events[nearest].words[word] += weight
        events[nearest].length = _length(events[nearest].words.values())
    return [event.stories for event in events]


def typical(posts: Sequence[P]) -> list[P]:
    """Those first whose beginning has most of what all begin with: the clearest headlines, as a rule."""
    words = _words_of([posts], _BY_HEADLINE)

    def likeness(post: P) -> float:
        own = _words_of([[post]], _By(LEAD, 1, 0.0))
        return sum(weight * words.get(word, 0.0) for word, weight in own.items()) / _length(own.values())

    return sorted(posts, key=lambda post: (-likeness(post), post.posted_at))


def telling_words(posts: Iterable[Outlined], count: int) -> list[int]:
    """By which these posts are known best, and can be looked up: rare words that most of them begin with."""
    worth: Counter[int] = Counter()
    for post in posts:
        worth.update({code >> 8: code & _RARITY for code in _rarest(post.outline)})
    return [word for word, _ in worth.most_common(count)]


@dataclass(slots=True)
class _Event(Generic[P]):
    stories: list[Sequence[P]] = field(default_factory=list)
    words: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    length: float = 0.0


def _told(group: Sequence[Sequence[Outlined]]) -> tuple[int, int, datetime]:
    posts = [post for story in group for post in story]
    return -len({post.channel_id for post in posts}), -len(posts), min(post.posted_at for post in posts)


def _words_of(group: Sequence[Sequence[Outlined]], by: _By) -> dict[int, float]:
    """What its posts begin with, by rarity, each post counted as much as the others."""
    words: dict[int, float] = defaultdict(float)
    for post in (post for story in group for post in story):
        lead = [(word, rarity**by.power) for word, rarity in read_outline(post.outline).lead[: by.words]]
        length = _length(weight for _, weight in lead)
        for word, weight in lead:
            words[word] += weight / length
    return words


def _nearest(
    words: Mapping[int, float], events: Sequence[_Event[P]], by_word: Mapping[int, Sequence[int]], least: float
) -> int | None:
    """The event that has most of these words, if it has enough of them."""
    shared: dict[int, float] = defaultdict(float)
    for word, weight in words.items():
        for number in by_word.get(word, ()):
            shared[number] += weight * events[number].words[word]
    length = _length(words.values())
    near = {number: found / length / events[number].length for number, found in shared.items()}
    best = max(near, key=lambda number: (near[number], -number), default=None)
    return best if best is not None and near[best] >= least else None


def _length(weights: Iterable[float]) -> float:
    return math.sqrt(sum(weight * weight for weight in weights)) or 1.0
