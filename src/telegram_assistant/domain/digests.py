"""Digests: what somebody asked for, what an issue says with its receipts, and what became of the posts it cites."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from telegram_assistant.domain.digest_schedule import Schedule, next_after, zone_named
from telegram_assistant.domain.text import clean_text

MOST_DIGESTS = 100  # of one user
MOST_TOPICS = 100
MOST_CHANNELS = 500
MOST_STORIES = 50
LONGEST_NAME = 100
LONGEST_TOPIC = 200


class Language(StrEnum):
    """In which a digest speaks."""

    RU = "ru"
    EN = "en"


class Way(StrEnum):
    """How a digest reaches its reader."""

    WEB = "web"
    RSS = "rss"
    EMAIL = "email"
    BOT = "bot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants to read, and when. `wish_of` makes one from what people write."""

    name: str
    topics: tuple[str, ...] = ()  # queries, or names of topics; none: everything
    channels: tuple[int, ...] = ()  # none: all that the tenant sees
    schedule: Schedule = field(default_factory=Schedule)
    language: Language = Language.RU
    most: int = 10
    ways: tuple[Way, ...] = (Way.WEB,)
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A wish that is kept."""

    id: UUID
    tenant_id: UUID
    user_id: UUID
    wish: Wish
    feed_version: int
    next_at: datetime | None
    trouble: str
    created_at: datetime

    def due_after(self, changed: Wish, now: datetime) -> datetime:
        """When it is due once it is changed: an issue whose time has come and that nobody has begun is not lost."""
        same = self.wish.enabled and self.wish.schedule == changed.schedule
        return self.next_at if same and self.next_at else next_after(changed.schedule, now)


def tidy(wish: Wish) -> Wish:
    """The same with spaces and doubles gone. Raises ValueError with a sentence for whoever wrote it."""
    name = " ".join(clean_text(wish.name).split())
    if not 0 < len(name) <= LONGEST_NAME:
        raise ValueError(f"name: give it 1 to {LONGEST_NAME} characters")
    topics = tuple(dict.fromkeys(words for raw in wish.topics if (words := " ".join(clean_text(raw).split()))))
    if len(topics) > MOST_TOPICS:
        raise ValueError(f"topics: {MOST_TOPICS} at most, you gave {len(topics)}; make a second digest of the rest")
    if any(len(topic) > LONGEST_TOPIC for topic in topics):
        raise ValueError(f"topics: each has {LONGEST_TOPIC} characters at most")
    channels = tuple(dict.fromkeys(wish.channels))
    if len(channels) > MOST_CHANNELS:
        raise ValueError(f"channels: {MOST_CHANNELS} at most; leave the list empty to read all of yours")
    if not 1 <= wish.most <= MOST_STORIES:
        raise ValueError(f"max_stories: a number from 1 to {MOST_STORIES}")
    zone_named(wish.schedule.zone)
    return Wish(
        name=name,
        topics=topics,
        channels=channels,
        schedule=wish.schedule,
        language=wish.language,
        most=wish.most,
        ways=tuple(way for way in Way if way in wish.ways),
        enabled=wish.enabled,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A post as it was when it was cited."""

    post_id: UUID
    channel_id: int
    channel: str
    url: str
    posted_at: datetime
    version: int
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What is said, and the posts that say so: their numbers in `Content.cited`, at least one."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One story."""

    sentences: tuple[Sentence, ...]
    posts: tuple[UUID, ...]  # all that tell it
    channels: int  # that do
    topics: tuple[str, ...] = ()  # of the reader's, that it fits
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A channel that was not up to date."""

    channel_id: int
    channel: str
    reason: str  # holes | stale | failing | new
    unknown: int = 0  # message ids that nobody can speak for
    since: datetime | None = None  # the last good visit
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was read for an issue, and what was left out."""

    channels: int = 0
    posts: int = 0  # of the period, in these channels
    fitting: int = 0  # posts that fit the topics
    stories: int = 0  # that these posts are
    told: int = 0
    over_limit: int = 0  # stories that came after the last one that is told
    told_before: int = 0  # stories that an earlier issue told
    wordless: int = 0  # stories without a sentence to cite
    capped: int = 0  # topics that more posts fit than are looked at
    gone: int = 0  # chosen channels that the tenant does not see any more
    behind: tuple[Behind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """An issue, as it is stored."""

    stories: tuple[Told, ...] = ()
    cited: tuple[Cited, ...] = ()
    coverage: Coverage = Coverage()
    written_by: str = ""  # the model; empty: these are sentences of the posts themselves
    without_model: str = ""  # why the model did not write it


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A digest for one period."""

    id: UUID
    tenant_id: UUID
    digest_id: UUID
    scheduled_for: datetime
    since: datetime
    until: datetime
    attempts: int
    error: str
    built_at: datetime | None
    content: Content | None = None


class Change(StrEnum):
    """What became of a cited post."""

    EDITED = "edited"
    DELETED = "deleted"
    GONE = "gone"  # not there any more, or not to be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNow:
    """A cited post as it is now."""

    post_id: UUID
    version: int
    content_hash: str
    text: str
    edited_at: datetime | None
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A cited post that is not what it was; its number in `Content.cited`."""

    source: int
    change: Change
    at: datetime | None = None
    text: str = ""  # what an edited post says now


def corrections(content: Content, now: dict[UUID, PostNow]) -> tuple[Correction, ...]:
    """Compare what was cited with what is there."""
    found = []
    for number, cited in enumerate(content.cited):
        post = now.get(cited.post_id)
        if post is None:
            found.append(Correction(source=number, change=Change.GONE))
        elif post.deleted_at is not None:
            found.append(Correction(source=number, change=Change.DELETED, at=post.deleted_at))
        elif (post.content_hash, post.version) != (cited.content_hash, cited.version):
            found.append(Correction(source=number, change=Change.EDITED, at=post.edited_at, text=post.text))
    return tuple(found)
