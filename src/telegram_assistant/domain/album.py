"""Albums: messages that share a grouped_id, gathered over pages until nothing can be missing (SPEC 2.5)."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from telegram_assistant.domain.moments import as_utc
from telegram_assistant.domain.post import MediaKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from telegram_assistant.domain.ledger import Coverage

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
