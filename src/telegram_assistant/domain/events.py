"""What travels between stages: frozen values with one envelope (SPEC 8), and what the bus keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Protocol
from uuid import UUID

from telegram_assistant import names
from telegram_assistant.domain.models import Entity

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The envelope. The same cause gives the same `idempotency_key`, however often it is published."""

    name: ClassVar[str]  # the event `posts.parsed` travels on `stream:posts:parsed`

    trace_id: str
    occurred_at: datetime
    idempotency_key: str
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class PostEvent(Event):
    """About a post, and the words that it had then."""

    tenant_id: UUID
    channel_id: int
    post_id: UUID
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PostParsed(PostEvent):
    """`posts.parsed`: a post is stored that is new, or whose text or media changed."""

    name: ClassVar[str] = names.POSTS_PARSED
    version: int
    telegram_message_id: int
    telegram_post_url: str
    text: str
    urls: tuple[str, ...]
    posted_at: datetime
    has_media: bool
    media_sha256_list: tuple[str, ...] = ()
    grouped_id: int | None = None
    views: int | None = None
    forwards: int | None = None
    replies: int | None = None
    reactions: dict[str, int] = field(default_factory=dict)
    forward_channel_id: int | None = None
    forward_message_id: int | None = None
    reply_to_message_id: int | None = None
    author: str | None = None
    edited_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostDeleted(Event):
    """`posts.deleted`: a stored post is gone from Telegram; it must leave the indexes."""

    name: ClassVar[str] = names.POSTS_DELETED
    tenant_id: UUID
    post_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSettled(PostEvent):
    """`media.settled`: no file of the post is waited for any more: each is stored, left out, or given up."""

    name: ClassVar[str] = names.MEDIA_SETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class AlbumParsed(Event):
    """`albums.parsed`: every item of a media group is stored."""

    name: ClassVar[str] = names.ALBUMS_PARSED
    tenant_id: UUID
    channel_id: int
    album_id: UUID
    grouped_id: int
    album_kind: str
    items_count: int
    caption_text: str
    post_ids: tuple[UUID, ...]
    posted_at: datetime


class Trigger(StrEnum):
    """Why a post was tagged."""

    INITIAL = "initial"
    VISION_RETAG = "vision_retag"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostVisionAnalyzed(PostEvent):
    """`posts.vision.analyzed`: every picture of a post was looked at, or left out for a reason that is stored."""

    name: ClassVar[str] = names.POSTS_VISION_ANALYZED
    pictures: int  # that were looked at
    left_out: int
    grouped_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRetag(PostEvent):
    """`posts.retag`: a post is to be tagged again."""

    name: ClassVar[str] = names.POSTS_RETAG


@dataclass(frozen=True, slots=True, kw_only=True)
class PostTagged(PostEvent):
    """`posts.tagged`: what a model made of the words of a post."""

    name: ClassVar[str] = names.POSTS_TAGGED
    tags: tuple[str, ...]
    tags_hash: str  # SHA-256 of the sorted set
    topics: tuple[str, ...]
    entities: tuple[Entity, ...]
    language: str
    provider: str
    model: str
    latency_ms: float
    trigger: Trigger
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PostCrawl(PostTagged):
    """`posts.crawl`: these links of the post deserve reading. Carries the tags on, for indexing waits for neither."""

    name: ClassVar[str] = names.POSTS_CRAWL
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostEnriched(PostTagged):
    """`posts.enriched`: the post is ready for the indexes; `pages` were read, or there was nothing to read."""

    name: ClassVar[str] = names.POSTS_ENRICHED
    pages: tuple[str, ...] = ()  # canonical addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class PostIndexed(PostEvent):
    """`posts.indexed`: the post can be found."""

    name: ClassVar[str] = names.POSTS_INDEXED
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlbumAssembled(Event):
    """`album.assembled`: what the pictures of an album show together."""

    name: ClassVar[str] = names.ALBUM_ASSEMBLED
    tenant_id: UUID
    channel_id: int
    album_id: UUID
    post_id: UUID  # the one that carries the album's caption and its entry in the indexes
    items_count: int
    items_analyzed: int
    partial: bool  # the time ran out before every item was looked at
    vision_summary: str
    vision_labels: tuple[str, ...]
    vision_ocr_text: str
    has_meme: bool
    has_text: bool
    assembly_lag_seconds: float


# Every event that travels, by its name.
EVENTS: dict[str, type[Event]] = {
    kind.name: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Event) and "name" in vars(kind)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that cannot be handled, with everything that it takes to understand why, and to try it again."""

    stage: str
    event: str  # its name
    key: str  # its idempotency key, or the entry's id where it could not be read
    payload: str  # JSON, or what came instead
    reason: str
    traceback: str | None
    attempts: int
    trace_id: str | None
    tenant_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a stage did for a post: the latest for each stage is kept."""

    post_id: UUID
    stage: str
    outcome: str  # done | skipped | waiting | dead
    note: str
    trace_id: str
    content_hash: str
    duration_ms: float


class Letters(Protocol):
    """Where dead letters go. A letter of the same stage, event and key replaces the older one."""

    async def add(self, letters: Sequence[DeadLetter]) -> None: ...


class StepLog(Protocol):
    """How a post came here."""

    async def record(self, steps: Sequence[Step]) -> None: ...
