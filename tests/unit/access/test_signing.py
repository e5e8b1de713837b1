"""Signed addresses: for exactly what was signed, until they expire, and by this installation only."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from telegram_assistant.access.credentials import LABEL, Signer, open_signer
from telegram_assistant.config import Settings
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.sealed import SALT

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
PARTS = ("media", "tenant", "abc")


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer("correct horse battery staple")


def test_good_until_it_expires(signer: Signer) -> None:
    signed = signer.sign(PARTS, expires=NOW + timedelta(hours=1))
    assert signer.check(PARTS, signed, now=NOW)
    assert signer.check(PARTS, signed, now=NOW + timedelta(minutes=59))
    assert not signer.check(PARTS, signed, now=NOW + timedelta(hours=1))


def test_only_for_what_was_signed(signer: Signer) -> None:
    signed = signer.sign(PARTS, expires=NOW + timedelta(hours=1))
    for other in (("media", "tenant", "abd"), ("media", "tenanta", "bc"), ("media", "tenant"), (*PARTS, ""), ()):
        assert not signer.check(other, signed, now=NOW)


def test_another_time_needs_another_signature(signer: Signer) -> None:
    until, _, signature = signer.sign(PARTS, expires=NOW + timedelta(hours=1)).partition(".")
    assert not signer.check(PARTS, f"{int(until) + 1}.{signature}", now=NOW)
    assert not signer.check(PARTS, f"0{until}.{signature}x", now=NOW)


@pytest.mark.parametrize(
    "signed", ["", ".", "1.", "x.y", "-1.a", "9" * 400, "²." + "a" * 43, "1.\ud800", "\0", "1e9.a"]
)
def test_anything_else_is_just_wrong(signer: Signer, signed: str) -> None:
    assert not signer.check(PARTS, signed, now=NOW)


def test_another_key_signs_otherwise(signer: Signer) -> None:
    signed = signer.sign(PARTS, expires=NOW + timedelta(hours=1))
    assert not Signer("another key").check(PARTS, signed, now=NOW)
    assert Signer(" correct horse battery staple\n").check(PARTS, signed, now=NOW)
    with pytest.raises(Fatal, match="TGA_SECRET_KEY"):
        Signer("  ")


def test_not_the_key_that_seals_the_sessions(signer: Signer) -> None:
    """One root, two labels: what one gives away says nothing of the other."""
    root = Scrypt(salt=SALT, length=32, n=2**14, r=8, p=1).derive(b"correct horse battery staple")
    until = int((NOW + timedelta(hours=1)).timestamp())
    parts = [part.encode() for part in (*PARTS, str(until))]
    content = b"".join(len(part).to_bytes(4) + part for part in parts)
    for label, good in ((LABEL, True), (b"sessions", False), (b"key id", False)):
        signature = hmac.digest(HKDFExpand(SHA256(), 32, label).derive(root), content, "sha256")
        signed = f"{until}.{urlsafe_b64encode(signature).decode().rstrip('=')}"
        assert signer.check(PARTS, signed, now=NOW) is good, label


def test_the_key_is_the_one_of_the_settings_or_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = DataFolder(tmp_path / "data")
    folder.make()
    expires = NOW + timedelta(hours=1)
    own = open_signer(Settings(tga_secret_key=None), folder)
    assert open_signer(Settings(tga_secret_key=None), folder).check(PARTS, own.sign(PARTS, expires=expires), now=NOW)
    assert (tmp_path / "data" / "keys" / "session.key").stat().st_mode & 0o777 == 0o600
    given = open_signer(Settings(tga_secret_key="a key of mine"), folder)
    assert not given.check(PARTS, own.sign(PARTS, expires=expires), now=NOW)
