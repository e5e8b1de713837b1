"""Albums: messages that share a grouped_id, gathered over pages until nothing can be missing (SPEC 2.5)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.post import MediaKind, Post

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from telegram_assistant.domain.ledger import Coverage

MAX_ITEMS = 10
SETTLE_AFTER = timedelta(seconds=10)

_ALBUM_NAMESPACE = uuid.UUID("0b9c0b5e-2f0d-5c3a-8d7e-51f3c6a4e922")
_VIDEO = frozenset({MediaKind.VIDEO, MediaKind.ANIMATION, MediaKind.VIDEO_NOTE})
_DOCUMENT = frozenset({MediaKind.DOCUMENT, MediaKind.AUDIO, MediaKind.VOICE})


class AlbumKind(StrEnum):
    """What an album holds."""

    PHOTO = "photo"
    VIDEO = "video"
    DOCUMENT = "document"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Album:
    """The known items of one media group, by message id."""

    channel_id: int
    grouped_id: int
    posts: tuple[Post, ...]

    def __post_init__(self) -> None:
        if not self.posts:
            raise ValueError(f"album {self.grouped_id} has no items")
        if any((post.channel_id, post.grouped_id) != (self.channel_id, self.grouped_id) for post in self.posts):
            raise ValueError(f"album {self.grouped_id} of channel {self.channel_id} holds a post of another one")
        ids = self.message_ids
        if any(earlier >= later for earlier, later in pairwise(ids)):
            raise ValueError(f"the items of album {self.grouped_id} are not in order, or doubled: {ids}")

    @property
    def id(self) -> uuid.UUID:
        return album_id(self.channel_id, self.grouped_id)

    @property
    def message_ids(self) -> tuple[int, ...]:
        return tuple(post.message_id for post in self.posts)

    @property
    def kind(self) -> AlbumKind:
        return album_kind(media.kind for post in self.posts for media in post.media)

    @property
    def caption(self) -> str:
        """The texts of the items; mostly one of them has it."""
        return "\n\n".join(post.text for post in self.posts if post.text)

    @property
    def last_posted_at(self) -> datetime:
        return max(as_utc(post.posted_at) for post in self.posts)


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


def gather(posts: Iterable[Post], known: Mapping[int, Album] | None = None) -> dict[int, Album]:
    """The albums of a channel by grouped_id: those known from earlier pages, with the items of this one.

    An item that is seen again replaces the earlier one, for it may have been edited.
    """
    items: dict[int, dict[int, Post]] = {
        grouped_id: {post.message_id: post for post in album.posts} for grouped_id, album in (known or {}).items()
    }
    for post in posts:
        if post.grouped_id is not None:
            items.setdefault(post.grouped_id, {})[post.message_id] = post
    return {grouped_id: _album(grouped_id, found) for grouped_id, found in items.items()}


def _album(grouped_id: int, found: Mapping[int, Post]) -> Album:
    posts = tuple(found[message_id] for message_id in sorted(found))
    return Album(posts[0].channel_id, grouped_id, posts)


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
    # An id next to it that nobody read yet, beyond a page's edge or before the first visit, may be an item.
    if not coverage.covers(window.start, min(window.stop, top)):
        return False
    if window.stop <= top:
        return True
    # At the newest end the next ids do not exist yet. An album is sent in one go, so time tells that it is over;
    # a clock that is behind Telegram's only makes us wait longer.
    return as_utc(now) - as_utc(last_posted_at) >= settle_after
