"""Which files of posts are downloaded, under which key they are kept (SPEC 8), and what a browser may show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from telegram_assistant.domain.post import Media, MediaKind
from telegram_assistant.domain.text import clean_text

if TYPE_CHECKING:
    from uuid import UUID

MEGABYTE = 1024 * 1024
DEFAULT_KINDS = frozenset({MediaKind.PHOTO, MediaKind.DOCUMENT})
NOTHING_TO_DOWNLOAD = "there is no file to download"

_FASTEST, _SLOWEST = timedelta(seconds=15), timedelta(hours=1)
_PLAIN_EXTENSION = re.compile(r"[a-z0-9]{1,8}", re.ASCII)
MAX_NAME = 255
_UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]")
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UNKNOWN = "bin"
_OFFICE = "application/vnd.openxmlformats-officedocument"
_EXTENSIONS = {
    "application/epub+zip": "epub",
    "application/gzip": "gz",
    "application/json": "json",
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    f"{_OFFICE}.presentationml.presentation": "pptx",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "application/x-tgsticker": "tgs",
    "application/xml": "xml",
    "application/zip": "zip",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "image/gif": "gif",
    "image/heic": "heic",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tiff",
    "image/webp": "webp",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
}
HEAD = 32  # bytes that are looked at
UNKNOWN = "application/octet-stream"
_BEGINNINGS = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# Of MP4 as browsers play it; HEIC, QuickTime and others begin alike.
_MP4_BRANDS = frozenset(
    {b"isom", b"iso2", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"dash", b"M4V ", b"MSNV"}
)


@dataclass(frozen=True, slots=True)
class MediaDecision:
    """Whether a file will be downloaded, and if not, why."""

    status: str  # pending | skipped
    reason: str | None = None
    held_until: datetime | None = None  # it is on its way: downloads leave it alone till then


PROTECTED = MediaDecision("skipped", "protected content is not downloaded (MEDIA_PROTECTED_ENABLED)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRules:
    """Kinds and sizes that the settings allow; sizes in bytes."""

    kinds: frozenset[MediaKind] = DEFAULT_KINDS
    picture_limit: int = 15 * MEGABYTE
    document_limit: int = 40 * MEGABYTE

    def limit_of(self, kind: MediaKind) -> int:
        return self.picture_limit if kind is MediaKind.PHOTO else self.document_limit


def decide(media: Media, rules: MediaRules) -> MediaDecision:
    """What is to become of a file. One of unknown size is measured while it arrives."""
    if media.kind is MediaKind.OTHER or media.file_id is None:
        return MediaDecision("skipped", NOTHING_TO_DOWNLOAD)
    if media.kind not in rules.kinds:
        return MediaDecision("skipped", f"files of the kind {media.kind.value} are not downloaded (MEDIA_KINDS)")
    if media.size is not None and media.size > rules.limit_of(media.kind):
        return MediaDecision("skipped", over_limit(media.kind, media.size, rules))
    return MediaDecision("pending")


def over_limit(kind: MediaKind, size: int | None, rules: MediaRules) -> str:
    """The sentence about a file that is too large; without a size where that is not known."""
    shown = "is over the limit" if size is None else f"has {_megabytes(size)} MB"
    return f"this {kind.value} {shown}, at most {_megabytes(rules.limit_of(kind))} MB are downloaded"


def extension_of(mime: str | None, name: str | None) -> str:
    """Lower case, letters and digits only: the name was written by a stranger."""
    known = _EXTENSIONS.get((mime or "").partition(";")[0].strip().lower())
    if known is not None:
        return known
    stem, _, ending = (name or "").rpartition(".")
    ending = ending.strip().lower()
    return ending if stem and _PLAIN_EXTENSION.fullmatch(ending) else _UNKNOWN


def clean_name(name: str) -> str | None:
    """A file's name that can be no path, or None where nothing is left of it."""
    cleaned = _UNSAFE.sub("_", clean_text(name)).strip()[-MAX_NAME:]
    return None if cleaned in {"", ".", ".."} else cleaned


def media_key(tenant_id: UUID, sha256: str, extension: str) -> str:
    """Where a file stands in the store."""
    if not _SHA256.fullmatch(sha256) or not _PLAIN_EXTENSION.fullmatch(extension):
        raise ValueError(f"a key is made of a SHA-256 in hex and a plain extension, not {sha256!r} and {extension!r}")
    return f"media/{tenant_id}/{sha256[:2]}/{sha256}.{extension}"


def wait_after(waited: timedelta) -> timedelta:
    """How long to wait after a failure that is not the file's own, by how long it has waited already.

    Half of the time so far makes the pauses grow like those of a backoff, and needs no count of such failures.
    """
    return min(max(waited / 2, _FASTEST), _SLOWEST)


def _megabytes(size: int) -> str:
    shown = size / MEGABYTE
    return f"{shown:.0f}" if shown == int(shown) else f"{shown:.1f}" if shown >= 0.1 else f"{shown:.3f}"


def shown_kind(head: bytes) -> str:
    """By the file's first bytes: a kind that a browser may show by itself, or the one that it can only save (G6)."""
    for beginning, mime in _BEGINNINGS:
        if head.startswith(beginning):
            return mime
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp" and head[8:12] in _MP4_BRANDS:
        return "video/mp4"
    return UNKNOWN
