"""Digests: what a user asks for and when, which stories are told, and what an issue says with its sources."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from itertools import groupby
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from telegram_assistant.domain.text import clean_text

MOST_DIGESTS = 100  # of one user
MOST_TOPICS = 100
MOST_CHANNELS = 500
MOST_STORIES = 50
LONGEST_NAME = 100
LONGEST_TOPIC = 200
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,32}){0,2}", re.ASCII)
_SECOND = timedelta(seconds=1)
MATCH, INTEREST, TOLD, REACH, NOVELTY = 0.3, 0.2, 0.35, 0.1, 0.05  # what each is worth, together 1
MANY_TELL = 3  # channels at least, for a story to be worth the most
FAR = 8.0  # times what the channel's posts usually get: no reach is worth more
AGED = 0.5  # novelty of a story as old as the period
REPEATED = 0.85  # each further story of one channel counts for so much of the one before


class Frequency(StrEnum):
    """How often."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rule for times. `weekday` (Monday is 0) counts for weekly ones, `day` for monthly ones."""

    frequency: Frequency = Frequency.DAILY
    weekday: int = 0
    day: int = 1
    minute: int = 12 * 60  # of the day
    zone: str = "Europe/Moscow"

    def __post_init__(self) -> None:
        if not 0 <= self.weekday <= 6:
            raise ValueError("weekday: a number from 0 (Monday) to 6 (Sunday)")
        if not 1 <= self.day <= 31:
            raise ValueError("day: a number from 1 to 31")
        if not 0 <= self.minute < 24 * 60:
            raise ValueError("time: from 00:00 to 23:59")


def zone_named(name: str) -> ZoneInfo:
    """Raises ValueError with a sentence for its author."""
    shown = name[:40].encode("ascii", "replace").decode()
    refusal = f"zone: {shown!r} is no time zone; write one like Europe/Moscow or UTC"
    if not _ZONE.fullmatch(name):
        raise ValueError(refusal)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError(refusal) from exc


def next_after(schedule: Schedule, moment: datetime) -> datetime:
    """The first time after this moment."""
    return next(due for due in _times(schedule, moment, forward=True) if due > moment)


def last_until(schedule: Schedule, moment: datetime) -> datetime:
    """The last time that has come by this moment."""
    return next(due for due in _times(schedule, moment, forward=False) if due <= moment)


def moment_of(day: date, minute: int, zone: ZoneInfo) -> datetime:
    """When a clock there shows this, in UTC."""
    shown = datetime.combine(day, time(minute // 60, minute % 60), tzinfo=zone)
    due = shown.astimezone(UTC)
    if due.astimezone(zone).replace(tzinfo=None) == shown.replace(tzinfo=None):
        return due
    return _end_of_gap(shown.replace(fold=1).astimezone(UTC), due, zone)


def _end_of_gap(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The moment between these two when the clocks went forward, to the second."""
    new = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2 // _SECOND * _SECOND
        if middle.astimezone(zone).utcoffset() == new:
            after = middle
        else:
            before = middle
    return after


def _times(schedule: Schedule, moment: datetime, *, forward: bool) -> Iterator[datetime]:
    """In their order, beginning on the safe side of the moment: a calendar day may be missing in a zone."""
    zone = zone_named(schedule.zone)
    start = moment.astimezone(zone).date() - timedelta(days=2 if forward else -2)
    for day in _days(schedule, start, forward=forward):
        yield moment_of(day, schedule.minute, zone)


def _days(schedule: Schedule, start: date, *, forward: bool) -> Iterator[date]:
    sign = 1 if forward else -1
    if schedule.frequency is Frequency.MONTHLY:
        month = start.year * 12 + start.month - 1 - sign
        while True:
            year, index = divmod(month, 12)
            yield date(year, index + 1, min(schedule.day, monthrange(year, index + 1)[1]))
            month += sign
    step = timedelta(days=sign)
    day = start
    if schedule.frequency is Frequency.WEEKLY:
        step *= 7
        day = start - sign * timedelta(days=sign * (start.weekday() - schedule.weekday) % 7)
    while True:
        yield day
        day += step


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
    """What a user wants to read, and when. `wish_of` makes one from what people write."""

    name: str
    topics: tuple[str, ...] = ()  # queries, or names of topics; none: everything
    channels: tuple[int, ...] = ()  # none: all that the tenant sees
    schedule: Schedule = field(default_factory=Schedule)
    language: Language = Language.RU
    most: int = 10
    ads: bool = False  # advertising and jokes, too
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
        """When it is due once it is changed: an issue whose time has come and that is not begun is not lost."""
        same = self.wish.enabled and self.wish.schedule == changed.schedule
        return self.next_at if same and self.next_at else next_after(changed.schedule, now)


def tidy(wish: Wish) -> Wish:
    """The same with spaces and doubles gone. Raises ValueError with a sentence for its author."""
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
        ads=wish.ads,
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
    section: str = ""  # its heading, in the language of the digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A channel that was not up to date."""

    channel_id: int
    channel: str
    reason: str  # holes | stale | failing | new
    unknown: int = 0  # message ids that are neither captured nor proved empty
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
    ads: int = 0  # stories that are advertising or jokes
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

    @property
    def sections(self) -> list[tuple[str, list[tuple[int, Told]]]]:
        """Headings, each with its stories and their numbers from 1; empty where there would be one heading only."""
        numbered = enumerate(self.stories, start=1)
        found = [(heading, list(some)) for heading, some in groupby(numbered, key=lambda one: one[1].section)]
        return found if len(found) > 1 else [("", some) for _, some in found]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A story, as far as it matters for its place."""

    key: UUID  # of the post that tells it best
    channel_id: int
    first_at: datetime  # when it was first told
    match: float = 1.0  # 0 to 1: how well it fits the best of the topics
    labels: tuple[str, ...] = ()  # its topics and tags
    reach: float = 1.0  # views beside those that posts of its channel usually get
    channels: int = 1  # that tell it, and do not only forward it


@dataclass(frozen=True, slots=True)
class Placed:
    """A story with what speaks for it, each from 0 to 1."""

    candidate: Candidate
    match: float
    interest: float
    told: float
    reach: float
    novelty: float

    @property
    def score(self) -> float:
        wanted = MATCH * self.match + INTEREST * self.interest
        return wanted + TOLD * self.told + REACH * self.reach + NOVELTY * self.novelty


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
    most_told = max(MANY_TELL, *(one.channels for one in candidates)) if candidates else MANY_TELL
    length = max(1.0, (until - since).total_seconds())
    placed = [
        Placed(
            one,
            match=_unit(one.match),
            interest=_unit(max((likes.get(label.casefold(), 0.0) for label in one.labels), default=0.0)),
            told=math.log(max(1, one.channels)) / math.log(most_told),
            reach=_unit(math.log(max(1.0, one.reach)) / math.log(FAR)),
            novelty=1 - (1 - AGED) * _unit((until - one.first_at).total_seconds() / length),
        )
        for one in candidates
    ]
    return _taking_turns(placed, most)


def _taking_turns(placed: Sequence[Placed], most: int) -> list[Placed]:
    rest = sorted(placed, key=lambda one: (-one.score, -one.candidate.first_at.timestamp(), one.candidate.key))
    taken: Counter[int] = Counter()
    ordered: list[Placed] = []
    while rest and len(ordered) < most:
        best = max(range(len(rest)), key=lambda at: (_worth(rest[at], taken), -at))
        chosen = rest.pop(best)
        if chosen.candidate.channels == 1:
            taken[chosen.candidate.channel_id] += 1
        ordered.append(chosen)
    return ordered + rest


def _worth(one: Placed, taken: Counter[int]) -> float:
    """What several channels tell belongs to none of them."""
    repeated = taken[one.candidate.channel_id] if one.candidate.channels == 1 else 0
    return one.score * REPEATED**repeated


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
