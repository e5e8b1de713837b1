"""A post as it is shown: what the API and the page have in common. Values only, and how stored JSON becomes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from telegram_assistant.domain.post import Poll, Service, post_url
from telegram_assistant.domain.text import Entity, EntityKind
from telegram_assistant.domain.understanding import Seen

PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp", "image/tiff"})

_KINDS: dict[object, EntityKind] = {kind.value: kind for kind in EntityKind}


@dataclass(frozen=True, slots=True)
class ChannelName:
    """A channel, as far as a post shows it."""

    id: int
    title: str
    username: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    """A file of a post, what became of it, and what was seen on it."""

    post_id: UUID
    position: int
    kind: str
    status: str  # pending | stored | skipped | failed | evicted
    reason: str | None  # why it is not stored
    mime: str | None
    size: int | None
    width: int | None
    height: int | None
    duration: float | None
    name: str | None
    sha256: str | None
    seen: Seen | None = None

    @property
    def is_picture(self) -> bool:
        """There may be a thumbnail of it."""
        looks = self.kind in {"photo", "sticker"} or (self.mime or "") in PICTURES
        return self.status == "stored" and self.sha256 is not None and looks

    @property
    def is_video(self) -> bool:
        """It can be played on a page."""
        return self.status == "stored" and self.sha256 is not None and self.mime == "video/mp4"


@dataclass(frozen=True, slots=True)
class Named:
    """A person, an organisation or a place that a post names."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the models made of the words that the post has now."""

    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    entities: tuple[Named, ...] = ()
    language: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class LinkedPage:
    """A page that the post links to, as it was read."""

    link: str
    url: str
    title: str
    description: str
    site: str
    problem: str | None
    fetched_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedFrom:
    """Where it comes from. `post_id` and `channel`: only where the reader may see them."""

    channel_id: int | None
    message_id: int | None
    name: str | None  # of a person, or a signature
    posted_at: datetime | None
    channel: ChannelName | None = None
    post_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTo:
    """What it answers; `post_id` and `text` only where the reader may see it."""

    message_id: int
    post_id: UUID | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostLine:
    """A post in a list."""

    id: UUID
    channel: ChannelName
    message_id: int
    posted_at: datetime
    text: str
    edited_at: datetime | None
    deleted_at: datetime | None
    version: int
    album_id: UUID | None
    has_media: bool
    views: int | None
    forwards: int | None
    replies: int | None
    reactions: dict[str, int]

    @property
    def url(self) -> str:
        return post_url(self.channel.username, self.channel.id, self.message_id)


@dataclass(frozen=True, slots=True)
class Caption:
    """What the post that speaks for an album says."""

    post_id: UUID
    text: str
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostView(PostLine):
    """A post with everything that hangs on it."""

    entities: tuple[Entity, ...]
    pinned: bool
    captured_at: datetime
    author: str | None
    files: tuple[ShownFile, ...]  # of the whole album, in its order
    album: tuple[UUID, ...]  # all its posts, this one too; empty: it is in none
    caption: Caption | None  # the words of its album, where another of its posts has them
    found: Findings
    pages: tuple[LinkedPage, ...]
    forward: ForwardedFrom | None
    reply_to: AnswerTo | None
    poll: Poll | None
    service: Service | None
    comments: int  # that are stored


@dataclass(frozen=True, slots=True)
class Version:
    """What a post said once. `until`: when we saw that it says something else; None: it still says this."""

    version: int
    text: str
    entities: tuple[Entity, ...]
    edited_at: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of a post at one moment."""

    at: datetime
    views: int | None
    forwards: int | None
    replies: int | None
    reactions: int


def entities_of(stored: Iterable[object]) -> tuple[Entity, ...]:
    """Entities as they were stored; what cannot be read as one is left out."""
    found = []
    for one in stored:
        if not isinstance(one, Mapping):
            continue
        kind, offset, length = _KINDS.get(one.get("kind")), one.get("offset"), one.get("length")
        if kind is not None and isinstance(offset, int) and isinstance(length, int):
            found.append(Entity(kind, offset, length, _words(one.get("url")), _words(one.get("detail"))))
    return tuple(found)


def findings_of(data: Mapping[str, Any] | None, provider: str | None) -> Findings:
    if not data:
        return Findings()
    return Findings(
        tags=tuple(map(str, data.get("tags") or ())),
        topics=tuple(map(str, data.get("topics") or ())),
        entities=tuple(Named(str(one["kind"]), str(one["name"])) for one in data.get("entities") or ()),
        language=str(data.get("language") or ""),
        provider=provider or "",
    )


def poll_of(details: Mapping[str, Any]) -> Poll | None:
    poll = details.get("poll")
    if not poll:
        return None
    return Poll(
        question=str(poll.get("question", "")),
        answers=tuple(map(str, poll.get("answers") or ())),
        quiz=bool(poll.get("quiz")),
        closed=bool(poll.get("closed")),
        voters=poll.get("voters"),
    )


def service_of(details: Mapping[str, Any]) -> Service | None:
    service = details.get("service")
    return Service(str(service.get("action", "")), _words(service.get("detail"))) if service else None


def _words(value: object) -> str | None:
    return value if isinstance(value, str) else None
