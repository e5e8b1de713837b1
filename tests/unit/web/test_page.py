"""What a reader's language, zone and choices do to a page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from starlette.requests import Request

from telegram_assistant.http.web.page import language_of, link, number, size, theme_of, when, zone_of
from telegram_assistant.http.web.pages.sign_in import local

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw, "query_string": b""})


@pytest.mark.parametrize(
    "headers, language",
    [
        ({}, "en"),
        ({"accept_language": "ru-RU,ru;q=0.9,en;q=0.8"}, "ru"),
        ({"accept_language": "de, fr;q=0.5, ru;q=0.1"}, "ru"),
        ({"accept_language": "de"}, "en"),
        ({"accept_language": "ru", "cookie": "tga_language=en"}, "en"),
        ({"accept_language": "," * 2000, "cookie": "tga_language=xx"}, "en"),
    ],
)
def test_language(headers: dict[str, str], language: str) -> None:
    assert language_of(request(**headers)) == language


@pytest.mark.parametrize("zone", ["", "Nowhere/Land", "../../etc/passwd", "/etc/passwd", "\x7f", "a" * 5000])
def test_a_wrong_zone_is_utc(zone: str) -> None:
    assert str(zone_of(request(cookie=f"tga_zone={zone}"))) == "UTC"


def test_a_right_zone() -> None:
    assert zone_of(request(cookie="tga_zone=Europe/Moscow")) == ZoneInfo("Europe/Moscow")
    assert theme_of(request(cookie="tga_theme=dark")) == "dark"
    assert theme_of(request(cookie="tga_theme=<b>")) == "auto"


@pytest.mark.parametrize(
    "back, english, russian",
    [
        (timedelta(seconds=2), "now", "сейчас"),
        (timedelta(minutes=1), "1 minute ago", "1 минуту назад"),
        (timedelta(hours=5), "5 hours ago", "5 часов назад"),
        (timedelta(days=-2), "in 2 days", "через 2 дня"),
        (timedelta(days=30), "2026-10-16", "16.10.2026"),
    ],
)
def test_when(back: timedelta, english: str, russian: str) -> None:
    zone = ZoneInfo("Europe/Moscow")
    assert f">{english}</time>" in when(NOW - back, language="en", zone=zone, now=NOW)
    assert f">{russian}</time>" in when(NOW - back, language="ru", zone=zone, now=NOW)
    assert "2026-11-15 15:00:00 MSK" in when(NOW, language="en", zone=zone, now=NOW)


def test_numbers_and_sizes() -> None:
    assert (number(12345, language="en"), number(12345, language="ru")) == ("12,345", "12\u00a0345")
    assert (number(0.25, language="en"), number(1.5, language="ru")) == ("0.2", "1,5")
    assert [size(value, language="en") for value in (0, 999, 1500, 12_345_678)] == [
        "0\u00a0B",
        "999\u00a0B",
        "1.5\u00a0kB",
        "12\u00a0MB",
    ]


def test_links_are_quoted() -> None:
    assert link("/search", q='a&b="c"', cursor=None) == "/search?q=a%26b%3D%22c%22"
    assert link("/posts/1") == "/posts/1"


@pytest.mark.parametrize(
    "address", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:x", "", "/a\nb"]
)
def test_only_local_addresses(address: str) -> None:
    assert local(address) == "/"
    assert local("/search?q=x") == "/search?q=x"
