"""Secrets: long, of a known shape, and never shown twice."""

from __future__ import annotations

import re

import pytest

from telegram_assistant.access.credentials import digest, is_token, key_prefix, new_key, new_token, same

pytestmark = pytest.mark.unit


def test_a_key_has_a_prefix_to_know_it_by_and_a_secret() -> None:
    key = new_key()
    assert re.fullmatch(r"tga_[a-z0-9]{8}_[A-Za-z0-9_-]{43}", key.token)
    assert key_prefix(key.token) == key.prefix
    assert key.sha256 == digest(key.token)
    assert len(key.sha256) == 64


def test_no_two_are_the_same() -> None:
    assert len({new_key().token for _ in range(50)} | {new_token() for _ in range(50)}) == 100


def test_the_secret_does_not_show_in_logs_and_tracebacks() -> None:
    key = new_key()
    assert key.token[-43:] not in repr(key)
    assert key.token[-43:] not in f"{key}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tga_",
        "tga_abcdefgh_short",
        "TGA_abcdefgh_" + "a" * 43,
        "tga_ABCDEFGH_" + "a" * 43,
        "x" * 10_000,
        "\0",
        "\ud800",
    ],
)
def test_what_is_no_key_is_told_without_a_look(text: str) -> None:
    assert key_prefix(text) is None
    assert not is_token(text)


def test_a_newline_at_the_end_is_no_part_of_it() -> None:
    assert key_prefix(new_key().token + "\n") is None
    assert not is_token(new_token() + "\n")


def test_comparing() -> None:
    assert same("abc", "abc")
    assert not same("abc", "abd")
    assert not same("abc", "abc\ud800")
