"""What a file is by its own first bytes: what its sender says about it is not believed (G6)."""

from __future__ import annotations

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


def shown_kind(head: bytes) -> str:
    """A kind that a browser may show by itself, or the one that it can only save."""
    for beginning, mime in _BEGINNINGS:
        if head.startswith(beginning):
            return mime
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp" and head[8:12] in _MP4_BRANDS:
        return "video/mp4"
    return UNKNOWN
