"""What travels between stages: frozen values with one envelope (SPEC 8). The bus knows how to write them down."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The envelope. The same cause gives the same `idempotency_key`, however often it is published."""

    trace_id: str
    occurred_at: datetime
    idempotency_key: str
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class PostParsed(Event):
    """`posts.parsed`: a post is stored that is new, or whose text or media changed."""

    tenant_id: UUID
    channel_id: int
    post_id: UUID
    version: int
    telegram_message_id: int
    telegram_post_url: str
    text: str
    urls: tuple[str, ...]
    posted_at: datetime
    content_hash: str
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

    tenant_id: UUID
    post_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AlbumParsed(Event):
    """`albums.parsed`: every item of a media group is stored."""

    tenant_id: UUID
    channel_id: int
    album_id: UUID
    grouped_id: int
    album_kind: str
    items_count: int
    caption_text: str
    post_ids: tuple[UUID, ...]
    posted_at: datetime
