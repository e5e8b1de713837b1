"""Files and polls of Telegram's messages as ours."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from telethon.tl import types

from telegram_assistant.domain.media_rules import clean_name
from telegram_assistant.domain.post import Media, MediaKind, Poll
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.domain.text import clean_text

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
PIECE = 512 * 1024  # Telegram's limit is 1 MiB; offsets must be multiples of the piece
MAX_RENEWALS = 3  # in a row, without a byte in between


@dataclass(frozen=True, slots=True)
class FileLocation:
    """What a download needs; it belongs to the account that got it, and `reference` expires after some hours."""

    id: int
    access_hash: int
    reference: bytes
    dc_id: int
    photo_size: str | None = None  # the letter of the size, for photos only

    def as_input(self) -> Any:
        if self.photo_size is None:
            return types.InputDocumentFileLocation(self.id, self.access_hash, self.reference, "")
        return types.InputPhotoFileLocation(self.id, self.access_hash, self.reference, self.photo_size)


def media_of(media: Any) -> tuple[Media, ...]:
    """The files of a message; what is no file but still something to see is one of kind `other`."""
    match media:
        case types.MessageMediaWebPage() | types.MessageMediaEmpty():
            return ()  # a preview is no content of the post
        case types.MessageMediaPhoto(photo=photo):
            return (photo_of(photo),)
        case types.MessageMediaDocument(document=document):
            return (document_of(document),)
        case types.MessageMediaPoll(attached_media=attached):
            return () if attached is None else media_of(attached)
        case types.MessageMediaPaidMedia(extended_media=parts):
            return tuple(one for part in parts for one in _paid(part))
        case _:
            return (Media(kind=MediaKind.OTHER, name=kind_name(media, "MessageMedia")),)


def photo_of(photo: Any) -> Media:
    """A photo in its largest size; one that was only to be seen for seconds is without a file."""
    sizes = [size for size in getattr(photo, "sizes", ()) if hasattr(size, "w") and hasattr(size, "h")]
    if not sizes:
        return Media(kind=MediaKind.PHOTO, mime="image/jpeg")
    largest = max(sizes, key=_area)
    return Media(
        kind=MediaKind.PHOTO,
        file_id=f"photo:{photo.id}",
        mime="image/jpeg",
        size=_byte_size(largest),
        width=largest.w,
        height=largest.h,
        reference=FileLocation(photo.id, photo.access_hash, photo.file_reference, photo.dc_id, largest.type),
    )


def document_of(document: Any) -> Media:
    """A file of any other kind, which its attributes tell."""
    if not isinstance(document, types.Document):
        return Media(kind=MediaKind.DOCUMENT)
    known = {type(attribute): attribute for attribute in document.attributes}
    video = known.get(types.DocumentAttributeVideo)
    audio = known.get(types.DocumentAttributeAudio)
    shape = video or known.get(types.DocumentAttributeImageSize)
    timed = video or audio
    named = known.get(types.DocumentAttributeFilename)
    return Media(
        kind=_document_kind(known, video, audio),
        file_id=f"document:{document.id}",
        mime=clean_text(document.mime_type) or None,
        size=document.size,
        width=shape.w if shape is not None else None,
        height=shape.h if shape is not None else None,
        duration=float(timed.duration) if timed is not None else None,
        name=clean_name(named.file_name) if named is not None else None,
        reference=FileLocation(document.id, document.access_hash, document.file_reference, document.dc_id),
    )


def poll_of(media: Any) -> Poll:
    """A poll of a MessageMediaPoll."""
    poll = media.poll
    return Poll(
        question=_plain(poll.question),
        answers=tuple(_plain(answer.text) for answer in poll.answers),
        quiz=bool(poll.quiz),
        closed=bool(poll.closed),
        voters=media.results.total_voters,
    )


def kind_name(value: Any, prefix: str) -> str:
    """`MessageMediaGeoLive` is `geo_live`."""
    return _WORD_START.sub("_", type(value).__name__.removeprefix(prefix)).lower()


def _document_kind(known: dict[Any, Any], video: Any, audio: Any) -> MediaKind:
    if types.DocumentAttributeSticker in known:
        return MediaKind.STICKER
    if types.DocumentAttributeAnimated in known:
        return MediaKind.ANIMATION
    if video is not None:
        return MediaKind.VIDEO_NOTE if video.round_message else MediaKind.VIDEO
    if audio is not None:
        return MediaKind.VOICE if audio.voice else MediaKind.AUDIO
    return MediaKind.DOCUMENT


def _paid(part: Any) -> tuple[Media, ...]:
    if isinstance(part, types.MessageExtendedMedia):
        return media_of(part.media)
    # Not paid for: there is a blurred preview, and nothing to download.
    return (Media(kind=MediaKind.OTHER, width=part.w, height=part.h, duration=part.video_duration, name="paid_media"),)


def _area(size: Any) -> int:
    return int(size.w * size.h)


def _byte_size(size: Any) -> int | None:
    if isinstance(size, types.PhotoSizeProgressive):
        return max(size.sizes, default=None)
    found = getattr(size, "size", None)
    return len(size.bytes) if found is None and hasattr(size, "bytes") else found


def _plain(text: Any) -> str:
    return clean_text(text if isinstance(text, str) else text.text)


AskPiece: TypeAlias = Callable[[FileLocation, int], Awaitable[bytes]]
Renew: TypeAlias = Callable[[], Awaitable[FileLocation]]


async def read_file(
    ask: AskPiece, renew: Renew, location: FileLocation | None, size: int | None
) -> AsyncGenerator[bytes, None]:
    """All bytes of a file; raises SourceError when they are fewer or more than announced."""
    total, renewals = 0, 0
    while True:
        try:
            if location is None:
                location = await renew()
            data = await ask(location, total)
        except SourceError as exc:
            renewals += 1
            if exc.failure is not Failure.REFERENCE_EXPIRED or renewals > MAX_RENEWALS:
                raise
            location = None
            continue
        renewals = 0
        total += len(data)
        if size is not None and total > size:
            raise SourceError(Failure.TRANSIENT, f"the file is longer than the {size} bytes that were announced")
        if data:
            yield data
        if len(data) < PIECE or total == size:
            break
    if size is not None and total < size:
        raise SourceError(Failure.TRANSIENT, f"the file ended early: {total} of {size} bytes")
