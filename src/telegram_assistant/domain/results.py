"""What a search gives back: posts with their snippets and stories, facets, and where the next page begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from telegram_assistant.domain.post import post_url
from telegram_assistant.domain.query import Note


class Sort(StrEnum):
    """What comes first. Without words to look for it is always the newest."""

    BEST = "best"
    NEWEST = "newest"


class Origin(StrEnum):
    """Where in a post a text stands."""

    TEXT = "text"
    PICTURE = "picture"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of a post, or of what hangs on it."""

    origin: Origin
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A post as its tenant may see it."""

    post_id: UUID
    owner: UUID  # the tenant whose indexes hold it
    channel_id: int
    channel_title: str
    channel_username: str | None
    message_id: int
    posted_at: datetime
    edited: bool
    deleted: bool
    passages: tuple[Passage, ...]  # the post's own text first

    @property
    def text(self) -> str:
        return self.passages[0].text if self.passages and self.passages[0].origin is Origin.TEXT else ""

    @property
    def url(self) -> str:
        return post_url(self.channel_username, self.channel_id, self.message_id)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text with what was looked for: `spans` are where, counted in characters of the piece."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()
    origin: Origin = Origin.TEXT
    cut_before: bool = False
    cut_after: bool = False


@dataclass(frozen=True, slots=True)
class Teller:
    """A post that tells a story."""

    post_id: UUID
    channel_id: int
    channel_title: str
    posted_at: datetime
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A story: the post that fits best, and everybody who tells it, the first source first."""

    post: Shown
    snippet: Snippet
    score: float
    by_words: bool
    by_meaning: bool
    album: tuple[UUID, ...] = ()  # all posts of its album, in their order
    pictures: tuple[str, ...] = ()  # SHA-256 of its photos, those of its album too
    tellers: tuple[Teller, ...] = ()  # empty: only this post does

    @property
    def posts(self) -> tuple[UUID, ...]:
        return self.album or (self.post.post_id,)

    @property
    def others(self) -> tuple[Teller, ...]:
        """Who tells it besides."""
        return tuple(one for one in self.tellers if one.post_id != self.post.post_id)


@dataclass(frozen=True, slots=True)
class Counted:
    """Stories that have the words (`found`), and others that are only near in meaning."""

    found: int = 0
    near: int = 0
    at_least: bool = False  # there were more than are looked at


@dataclass(frozen=True, slots=True)
class Offer:
    """Another query that finds something, where this one found nothing."""

    query: str
    counted: Counted
    without: str = ""  # the filters that were taken away; empty: it is spelt otherwise

    @property
    def found(self) -> int:
        return self.counted.found


@dataclass(frozen=True, slots=True)
class Facet:
    """A value that narrows a search, and how many of the found stories are left then."""

    value: str
    posts: int
    title: str = ""  # of a channel
    name: str = ""  # how a query calls a channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """The commonest values among what was found."""

    channels: tuple[Facet, ...] = ()
    tags: tuple[Facet, ...] = ()
    topics: tuple[Facet, ...] = ()
    languages: tuple[Facet, ...] = ()
    has: tuple[Facet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One page; `cursor` leads to the next. What is counted, and its facets, are stories that have the words."""

    hits: tuple[Hit, ...] = ()
    counted: Counted = Counted()
    related_from: int | None = None  # the first of them among the hits, if they begin on this page
    facets: Facets = Facets()
    cursor: str | None = None
    notes: tuple[Note, ...] = ()
    without_meaning: str = ""  # why the search went by words alone; empty: it did not have to
    offers: tuple[Offer, ...] = ()  # what to try, where there are no hits

    @property
    def found(self) -> int:
        return self.counted.found

    @property
    def near(self) -> int:
        return self.counted.near

    @property
    def at_least(self) -> bool:
        return self.counted.at_least
