"""Names that people type."""

from __future__ import annotations

import pytest

from telegram_assistant.access.credentials import parse_email, parse_login, parse_name, parse_tenant
from telegram_assistant.errors import Reject

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("text", ["Ann", " ann ", "ann.b+c@example.org", "Анна_1", "a-b", "x" * 100])
def test_logins_are_in_lower_case(text: str) -> None:
    assert parse_login(text) == text.strip().lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ab",
        "a b",
        ".ann",
        "ann.",
        "ann\n.x",
        "<b>",
        "ann\u202e",
        "İstanbul",
        "x" * 101,
        "\uff41\uff4e\uff4e",
        "an'n",
    ],
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(Reject, match="3 to 100"):
        parse_login(text)


def test_names_of_people() -> None:
    assert parse_name("  Анна \t Петрова\0 ") == "Анна Петрова"
    assert parse_name("\ud800x") == "\ufffdx"
    for text in ("", " ", "x" * 101, "\u202eexe.txt", "a\x1b[31m"):
        with pytest.raises(Reject, match="1 to 100"):
            parse_name(text)


def test_addresses() -> None:
    assert parse_email(" Ann@Example.ORG ") == "ann@example.org"
    assert parse_email(None) is None
    assert parse_email("  ") is None
    for text in ("ann", "@", "a@b", "a b@c.de", "x" * 300 + "@c.de"):
        with pytest.raises(Reject, match="e-mail"):
            parse_email(text)


def test_tenants() -> None:
    for text in ("newsroom", "a", "team-1"):
        assert parse_tenant(text) == text
    for text in ("", "Team", "a b", "-a", "a-", "x" * 64, "имя", "a/b", "a\n"):
        if text.strip() != "a":
            with pytest.raises(Reject, match="lower-case"):
                parse_tenant(text)
