"""A post as any source gives it: frozen values with canonical ids, aware times and clean text. Albums: messages that
share a grouped_id, gathered over pages until nothing can be missing (SPEC 2.5)."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING

from telegram_assistant.domain.moments import as_utc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from telegram_assistant.domain.ledger import Coverage
    from telegram_assistant.domain.text import Entity, Link

# Changing either would give every stored post another identity, or a false edit.
_POST_NAMESPACE = uuid.UUID("6d3cf1f5-4c43-5d0a-9f0e-6a0c3a0b7a11").bytes
_HASH_VERSION = 1

LARGEST_MESSAGE_ID = 2**31 - 1  # Telegram's are 32 bits, and no request can name a larger one
LARGEST_ID = 2**63 - 1  # what the tables hold


class MediaKind(StrEnum):
    """What a piece of media is to Telegram."""

    PHOTO = "photo"
    VIDEO = "video"
    ANIMATION = "animation"
    VIDEO_NOTE = "video_note"
    AUDIO = "audio"
    VOICE = "voice"
    STICKER = "sticker"
    DOCUMENT = "document"
    OTHER = "other"  # a place, a contact, a kind we do not know: nothing to download


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A file of a post. `reference` is for the source alone: what it needs for a download, which may expire."""

    kind: MediaKind
    file_id: str | None = None  # what the source calls the file for ever, unlike `reference`
    mime: str | None = None
    size: int | None = None
    width: int | None = None
    height: int | None = None
    duration: float | None = None
    name: str | None = None
    reference: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What grows under a post, and is never an edit. None where the source does not tell."""

    views: int | None = None
    forwards: int | None = None
    replies: int | None = None
    reactions: tuple[tuple[str, int], ...] = ()  # by emoji, sorted: equal counters are equal values

    @classmethod
    def counted(
        cls,
        *,
        views: int | None = None,
        forwards: int | None = None,
        replies: int | None = None,
        reactions: Mapping[str, int] | None = None,
    ) -> Counters:
        """Counters with reactions in any order."""
        return cls(views=views, forwards=forwards, replies=replies, reactions=tuple(sorted((reactions or {}).items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Where a forwarded post came from, as far as its origin shows itself."""

    channel_id: int | None = None
    message_id: int | None = None
    user_id: int | None = None
    name: str | None = None  # of a person who hides the account
    author: str | None = None  # signature in the origin
    posted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTo:
    """What a post answers."""

    message_id: int
    channel_id: int | None = None  # when that is in another channel
    thread_id: int | None = None  # the first message of the thread, in a discussion group


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """A poll or quiz. Votes are counters."""

    question: str
    answers: tuple[str, ...]
    quiz: bool = False
    closed: bool = False
    voters: int | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A message about the channel itself: a pin, a new title."""

    action: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """A post as a public page shows it: figures are rounded, files are small ones, and some things are left out."""

    edited: bool = False  # says the page, and not when


NO_COUNTERS = Counters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One message of a channel. An item of an album is a post with a `grouped_id`."""

    channel_id: int  # canonical: bare and positive
    message_id: int
    posted_at: datetime
    text: str = ""
    entities: tuple[Entity, ...] = ()
    links: tuple[Link, ...] = ()
    media: tuple[Media, ...] = ()
    grouped_id: int | None = None
    forward: Forward | None = None
    reply_to: ReplyTo | None = None
    author: str | None = None  # signature, or the name of who wrote it
    author_id: int | None = None  # in a discussion group: the user who wrote it
    edited_at: datetime | None = None
    pinned: bool = False
    protected: bool = False  # may not be forwarded or saved, says its author
    poll: Poll | None = None
    service: Service | None = None
    counters: Counters = NO_COUNTERS
    preview: Preview | None = None  # None: told by Telegram itself
    exported_at: datetime | None = None  # an export that was made then told of it, and not Telegram itself
    # Made once and not when they are needed, which is while the channel's row is locked.
    id: uuid.UUID = field(init=False, compare=False, repr=False)
    content_hash: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", post_id(self.channel_id, self.message_id))
        object.__setattr__(self, "content_hash", content_hash(self))
        as_utc(self.posted_at)
        if self.edited_at is not None:
            as_utc(self.edited_at)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple([link.url for link in self.links])

    @property
    def has_media(self) -> bool:
        return bool(self.media)


def post_id(channel_id: int, message_id: int) -> uuid.UUID:
    """The same id for the same post, each time it is seen: uuid5 of both, without its detours."""
    _check_ids(channel_id, message_id)
    digest = hashlib.sha1(b"%b%d/%d" % (_POST_NAMESPACE, channel_id, message_id), usedforsecurity=False).digest()
    return uuid.UUID(bytes=digest[:16], version=5)


def post_url(username: str | None, channel_id: int, message_id: int) -> str:
    """The post's address: public by username, otherwise the one that only members can open."""
    _check_ids(channel_id, message_id)
    return f"https://t.me/{username or f'c/{channel_id}'}/{message_id}"


def content_hash(post: Post) -> str:
    """SHA-256 of what a reader sees: text, formatting, media, a poll's words. Another hash means an edit.

    Counters, pins, edit dates and download references change without an edit and stay out.
    """
    entities = [
        f"[{_quote(entity.kind)},{entity.offset},{entity.length},null,null]"
        if entity.url is None and entity.detail is None
        else f"[{_quote(entity.kind)},{entity.offset},{entity.length},{_text(entity.url)},{_text(entity.detail)}]"
        for entity in post.entities
    ]
    media = [_identity(media) for media in post.media]
    poll = "null" if post.poll is None else _list([_quote(words) for words in (post.poll.question, *post.poll.answers)])
    # JSON keeps the parts apart. It is put together here because every post that is read passes here.
    content = f"[{_HASH_VERSION},{_quote(post.text)},{_list(entities)},{_list(media)},{poll}]"
    # `surrogatepass` so that a source which did not clean its text still gets a hash.
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _identity(media: Media) -> str:
    if media.file_id is not None:
        return f"[{_quote(media.kind)},{_quote(media.file_id)}]"
    known = [media.kind, None, media.mime, media.size, media.width, media.height, media.duration, media.name]
    return json.dumps(known, ensure_ascii=False, separators=(",", ":"))


def _text(value: str | None) -> str:
    return "null" if value is None else _quote(value)


def _list(parts: list[str]) -> str:
    return f"[{','.join(parts)}]"


def _check_ids(channel_id: int, message_id: int) -> None:
    if not (1 <= channel_id <= LARGEST_ID and 1 <= message_id <= LARGEST_MESSAGE_ID):
        raise ValueError(
            "a post has a bare, positive channel id and a message id from 1 to"
            f" {LARGEST_MESSAGE_ID}: {channel_id}, {message_id}"
        )


MAX_ITEMS = 10
SETTLE_AFTER = timedelta(seconds=10)
PARTIAL_AFTER = timedelta(hours=1)  # an id next to it that cannot be read must not keep it back for ever

_ALBUM_NAMESPACE = uuid.UUID("0b9c0b5e-2f0d-5c3a-8d7e-51f3c6a4e922")
_VIDEO = frozenset({MediaKind.VIDEO, MediaKind.ANIMATION, MediaKind.VIDEO_NOTE})
_DOCUMENT = frozenset({MediaKind.DOCUMENT, MediaKind.AUDIO, MediaKind.VOICE})


class AlbumKind(StrEnum):
    """What an album holds."""

    PHOTO = "photo"
    VIDEO = "video"
    DOCUMENT = "document"
    MIXED = "mixed"


def album_id(channel_id: int, grouped_id: int) -> uuid.UUID:
    """The same id for the same album, whichever of its items was seen first."""
    return uuid.uuid5(_ALBUM_NAMESPACE, f"{channel_id}/{grouped_id}")


def album_kind(kinds: Iterable[MediaKind]) -> AlbumKind:
    """One kind when all items agree, otherwise mixed. Sound counts as documents: there is no kind for it."""
    found = set(kinds)
    if found == {MediaKind.PHOTO}:
        return AlbumKind.PHOTO
    if found and found <= _VIDEO:
        return AlbumKind.VIDEO
    if found and found <= _DOCUMENT:
        return AlbumKind.DOCUMENT
    return AlbumKind.MIXED


def around(message_ids: Collection[int]) -> range:
    """The ids among which every item of this album lies: at most 9 others, on either side.

    Items mostly have consecutive ids, but a post made at the same moment may stand between them.
    """
    return range(max(1, min(message_ids) - (MAX_ITEMS - 1)), max(message_ids) + MAX_ITEMS)


def album_is_settled(
    message_ids: Collection[int],
    newest_seen_id: int,
    coverage: Coverage,
    *,
    last_posted_at: datetime,
    now: datetime,
    settle_after: timedelta = SETTLE_AFTER,
) -> bool:
    """Whether no further item can turn up. If not, read `around(message_ids)` again."""
    if len(set(message_ids)) >= MAX_ITEMS:
        return True
    window = around(message_ids)
    top = max(newest_seen_id, *message_ids) + 1
    # An id next to it that was not read yet, beyond a page's edge or before the first visit, may be an item.
    if not coverage.covers(window.start, min(window.stop, top)):
        return False
    if window.stop <= top:
        return True
    # At the newest end the next ids do not exist yet. An album is sent in one go, so time tells that it is over;
    # a clock that is behind Telegram's only makes us wait longer.
    return as_utc(now) - as_utc(last_posted_at) >= settle_after
