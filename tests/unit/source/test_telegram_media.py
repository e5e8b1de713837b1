"""Files of every kind, with what is known of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from telethon.tl import types

from telegram_assistant.domain.media_rules import clean_name
from telegram_assistant.domain.post import Media, MediaKind
from telegram_assistant.source.telegram_media import FileLocation, media_of

pytestmark = pytest.mark.unit

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def document(*attributes: Any, mime: str = "application/pdf") -> Any:
    made = types.Document(3, 4, b"reference", NOON, mime, 5_000_000_000, 2, list(attributes))
    return types.MessageMediaDocument(document=made)


def test_a_photo_in_its_largest_size() -> None:
    sizes = [
        types.PhotoSizeProgressive("y", 1280, 960, [10_000, 90_000, 50_000]),
        types.PhotoStrippedSize("i", b"\x01"),
        types.PhotoSize("m", 320, 240, 9_000),
    ]
    (found,) = media_of(types.MessageMediaPhoto(photo=types.Photo(1, 5, b"reference", NOON, sizes, 4)))
    assert found == Media(
        kind=MediaKind.PHOTO, file_id="photo:1", mime="image/jpeg", size=90_000, width=1280, height=960
    )
    assert found.reference == FileLocation(1, 5, b"reference", 4, "y")


@pytest.mark.parametrize("photo", [None, types.PhotoEmpty(1), types.Photo(1, 5, b"", NOON, [], 4)])
def test_a_photo_that_is_not_there(photo: Any) -> None:
    assert media_of(types.MessageMediaPhoto(photo=photo)) == (Media(kind=MediaKind.PHOTO, mime="image/jpeg"),)


@pytest.mark.parametrize(
    "attributes, kind",
    [
        ([], MediaKind.DOCUMENT),
        ([types.DocumentAttributeVideo(1.5, 640, 480)], MediaKind.VIDEO),
        ([types.DocumentAttributeVideo(1.5, 640, 480, round_message=True)], MediaKind.VIDEO_NOTE),
        ([types.DocumentAttributeVideo(1.5, 640, 480), types.DocumentAttributeAnimated()], MediaKind.ANIMATION),
        ([types.DocumentAttributeAudio(60)], MediaKind.AUDIO),
        ([types.DocumentAttributeAudio(60, voice=True)], MediaKind.VOICE),
        ([types.DocumentAttributeSticker("🎈", types.InputStickerSetEmpty())], MediaKind.STICKER),
        ([types.DocumentAttributeImageSize(640, 480)], MediaKind.DOCUMENT),
    ],
)
def test_kinds_of_documents(attributes: list[Any], kind: MediaKind) -> None:
    (found,) = media_of(document(*attributes))
    assert found.kind is kind
    assert (found.file_id, found.size) == ("document:3", 5_000_000_000)


def test_all_that_is_known_of_a_video() -> None:
    (found,) = media_of(
        document(
            types.DocumentAttributeVideo(1.5, 640, 480), types.DocumentAttributeFilename("a.mp4"), mime="video/mp4"
        )
    )
    assert (found.width, found.height, found.duration, found.name, found.mime) == (640, 480, 1.5, "a.mp4", "video/mp4")
    assert found.reference == FileLocation(3, 4, b"reference", 2)


def test_a_document_that_is_not_there() -> None:
    assert media_of(types.MessageMediaDocument(document=types.DocumentEmpty(3))) == (Media(kind=MediaKind.DOCUMENT),)


def test_paid_media_is_seen_paid_for_or_not() -> None:
    preview = types.MessageExtendedMediaPreview(w=10, h=20, video_duration=3)
    bought = types.MessageExtendedMedia(document())
    found = media_of(types.MessageMediaPaidMedia(5, [preview, bought]))
    assert [(one.kind, one.width, one.file_id) for one in found] == [
        (MediaKind.OTHER, 10, None),
        (MediaKind.DOCUMENT, None, "document:3"),
    ]


def test_what_is_no_file_says_what_it_is() -> None:
    places = types.MessageMediaGeoLive(types.GeoPoint(1.0, 2.0, 0), 60), types.MessageMediaDice(3, "🎲")
    assert [media_of(place)[0].name for place in places] == ["geo_live", "dice"]


@pytest.mark.parametrize(
    "name, cleaned",
    [
        ("report.pdf", "report.pdf"),
        ("a\0b.pdf", "ab.pdf"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("C:\\evil\nname", "C:_evil_name"),
        ("half \ud83d", "half \ufffd"),
        ("..", None),
        (" \0 ", None),
    ],
)
def test_names_that_can_be_no_path(name: str, cleaned: str | None) -> None:
    assert clean_name(name) == cleaned


def test_a_long_name_keeps_its_end() -> None:
    assert (clean_name("x" * 1000 + ".pdf") or "").endswith("x.pdf")
    assert len(clean_name("x" * 1000) or "") == 255
