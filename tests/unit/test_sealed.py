"""Sessions at rest: nothing of them shows, and a wrong key is told as one."""

from __future__ import annotations

import pytest

from telegram_assistant.errors import Fatal
from telegram_assistant.stores.sealed import Sealer

pytestmark = pytest.mark.unit

KEY = "correct horse battery staple"
SESSION = "1ApWapzMBu4PU-a-session-that-nobody-may-see-Ω"


@pytest.fixture(scope="module")
def sealer() -> Sealer:
    return Sealer(KEY)


def test_what_is_sealed_opens_again_with_the_same_key(sealer: Sealer) -> None:
    sealed = sealer.seal(SESSION, owner="7")
    assert Sealer(KEY).unseal(sealed, owner="7") == SESSION
    assert Sealer(f"  {KEY}\n").unseal(sealed, owner="7") == SESSION  # as files and shells leave it


def test_nothing_of_the_text_or_the_key_shows(sealer: Sealer) -> None:
    sealed = sealer.seal(SESSION, owner="7")
    assert SESSION.encode() not in sealed
    assert SESSION.encode()[:8] not in sealed
    assert KEY.encode() not in sealed
    assert KEY not in f"{sealer!r} {vars(sealer)!r}"


def test_the_same_text_is_never_sealed_alike(sealer: Sealer) -> None:
    assert sealer.seal(SESSION, owner="7") != sealer.seal(SESSION, owner="7")


def test_another_key_is_told_in_a_sentence_that_says_what_to_do(sealer: Sealer) -> None:
    with pytest.raises(Fatal, match=r"another key: set TGA_SECRET_KEY to what it was.*keys/session\.key.*tga login"):
        Sealer("another").unseal(sealer.seal(SESSION, owner="7"), owner="7")


def test_a_sealed_text_opens_for_its_owner_only(sealer: Sealer) -> None:
    with pytest.raises(Fatal, match="damaged"):
        sealer.unseal(sealer.seal(SESSION, owner="7"), owner="8")


def test_every_changed_byte_is_noticed(sealer: Sealer) -> None:
    sealed = sealer.seal("short", owner="7")
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(Fatal):
            sealer.unseal(bytes(changed), owner="7")


@pytest.mark.parametrize("length", [0, 1, 5, 16, 17, 20])
def test_what_was_cut_short_is_damaged(sealer: Sealer, length: int) -> None:
    with pytest.raises(Fatal, match="tga login"):
        sealer.unseal(sealer.seal(SESSION, owner="7")[:length], owner="7")


@pytest.mark.parametrize("key", ["", "  \n"])
def test_a_blank_key_is_no_key(key: str) -> None:
    with pytest.raises(Fatal, match="TGA_SECRET_KEY is blank"):
        Sealer(key)
