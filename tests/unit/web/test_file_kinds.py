"""What a file is by its first bytes."""

from __future__ import annotations

import pytest

from telegram_assistant.domain.media_rules import UNKNOWN, shown_kind

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "head, kind",
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"\0\0\0\x18ftypheic", UNKNOWN),
        (b"\0\0\0\x14ftypqt  ", UNKNOWN),
        (b"<svg", UNKNOWN),
        (b"<html>", UNKNOWN),
        (b"%PDF", UNKNOWN),
        (b"", UNKNOWN),
    ],
)
def test_only_what_is_safe_is_shown(head: bytes, kind: str) -> None:
    assert shown_kind(head) == kind
