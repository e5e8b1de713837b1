"""Which files are taken, what they are called in the store, and how pauses grow."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.media_rules import (
    MEGABYTE,
    MediaDecision,
    MediaRules,
    decide,
    extension_of,
    media_key,
    wait_after,
)
from telegram_assistant.domain.post import Media, MediaKind

pytestmark = pytest.mark.unit

RULES = MediaRules()
TENANT = UUID("00000000-0000-0000-0000-000000000001")
SHA = "ab" * 32


def media(kind: MediaKind, size: int | None, file_id: str | None = "photo:1") -> Media:
    return Media(kind=kind, size=size, file_id=file_id)


@pytest.mark.parametrize(
    "kind, size",
    [
        (MediaKind.PHOTO, 0),
        (MediaKind.PHOTO, 15 * MEGABYTE),
        (MediaKind.DOCUMENT, 40 * MEGABYTE),
        (MediaKind.DOCUMENT, None),
    ],
)
def test_spec_8_files_up_to_the_limit_are_taken(kind: MediaKind, size: int | None) -> None:
    assert decide(media(kind, size), RULES) == MediaDecision("pending")


@pytest.mark.parametrize(
    "kind, size, reason",
    [
        (MediaKind.PHOTO, 15 * MEGABYTE + 500_000, "this photo has 15.5 MB, at most 15 MB are downloaded"),
        (MediaKind.DOCUMENT, 41 * MEGABYTE, "this document has 41 MB, at most 40 MB are downloaded"),
    ],
)
def test_spec_8_larger_ones_are_skipped_with_the_reason(kind: MediaKind, size: int, reason: str) -> None:
    assert decide(media(kind, size), RULES) == MediaDecision("skipped", reason)


def test_one_byte_over_is_over() -> None:
    assert decide(media(MediaKind.PHOTO, 15 * MEGABYTE + 1), RULES).status == "skipped"
    assert decide(media(MediaKind.DOCUMENT, 40 * MEGABYTE + 1), RULES).status == "skipped"


def test_only_the_kinds_of_the_settings_are_taken() -> None:
    video = media(MediaKind.VIDEO, 1000)
    assert decide(video, RULES).reason == "files of the kind video are not downloaded (MEDIA_KINDS)"
    assert decide(video, MediaRules(kinds=frozenset({MediaKind.VIDEO}))).status == "pending"


@pytest.mark.parametrize(
    "found", [media(MediaKind.OTHER, None, None), media(MediaKind.PHOTO, None, None), media(MediaKind.OTHER, 5)]
)
def test_what_is_no_file_is_skipped(found: Media) -> None:
    rules = MediaRules(kinds=frozenset(MediaKind))
    assert decide(found, rules) == MediaDecision("skipped", "there is no file to download")


@pytest.mark.parametrize(
    "mime, name, extension",
    [
        ("image/jpeg", None, "jpg"),
        ("image/jpeg", "evil.exe", "jpg"),
        ("text/plain; charset=utf-8", "a", "txt"),
        ("APPLICATION/PDF", None, "pdf"),
        ("application/octet-stream", "доклад.DOCX", "docx"),
        (None, "archive.tar.gz", "gz"),
        (None, "no extension", "bin"),
        (None, "dot.", "bin"),
        (None, ".htaccess", "bin"),
        (None, "x.a/../../b", "bin"),
        (None, "x.п", "bin"),
        ("", "", "bin"),
        (None, None, "bin"),
    ],
)
def test_extensions(mime: str | None, name: str | None, extension: str) -> None:
    assert extension_of(mime, name) == extension


@given(st.none() | st.text(), st.none() | st.text())
def test_every_extension_can_stand_in_a_key(mime: str | None, name: str | None) -> None:
    key = media_key(TENANT, SHA, extension_of(mime, name))
    assert key.startswith(f"media/{TENANT}/ab/{SHA}.")
    assert key.count("/") == 3
    assert key.isascii()
    assert ".." not in key


@pytest.mark.parametrize(
    "sha, extension", [("ab" * 31, "jpg"), (SHA.upper(), "jpg"), (SHA, ""), (SHA, "a/b"), (SHA + "\n", "jpg")]
)
def test_a_key_is_made_of_nothing_else(sha: str, extension: str) -> None:
    with pytest.raises(ValueError, match="a key is made of"):
        media_key(TENANT, sha, extension)


def test_pauses_grow_with_the_time_waited_and_have_bounds() -> None:
    waited, pauses = timedelta(0), []
    for _ in range(40):
        pauses.append(wait_after(waited))
        waited += pauses[-1]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (timedelta(seconds=15), timedelta(hours=1))
    assert len([pause for pause in pauses if pause < timedelta(hours=1)]) < 20
