"""What a status means, and how long Retry-After may make us wait."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from telegram_assistant.crawl.fetcher import check_status, kept_value, retry_after, user_agent
from telegram_assistant.errors import Retry, Skip

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize("status", [200, 201, 203])
def test_success_passes(status: int) -> None:
    check_status(status, {}, NOW)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    with pytest.raises(Retry, match=str(status)) as retry:
        check_status(status, {"retry-after": "120"}, NOW)
    assert retry.value.after == 120
    assert retry.value.failed


@pytest.mark.parametrize("status", [101, 204, 205, 206, 300, 304, 305, 400, 401, 402, 403, 404, 405, 410, 418, 451])
def test_what_will_not_pass_is_skipped(status: int) -> None:
    with pytest.raises(Skip, match=str(status)):
        check_status(status, {"retry-after": "120"}, NOW)


@pytest.mark.parametrize(
    "value,seconds",
    [
        ("7", 7),
        (" 30 ", 30),
        ("0", 1),
        ("999999999999999999999", 86_400),
        ("Mon, 05 Jan 2026 12:05:00 GMT", 300),
        ("Monday, 05-Jan-26 12:05:00 GMT", 300),
        ("Mon, 05 Jan 2026 12:05:00", 300),
        ("Mon, 05 Jan 2026 11:00:00 GMT", 1),
        ("Mon, 05 Jan 2099 12:00:00 GMT", 86_400),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("Mon, 99 Jan 2026 12:05:00 GMT", None),
        ("Mon, 05 Jan 999999999999 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date_within_bounds(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}, NOW) == seconds


def test_headers_that_are_sent_back_are_plain() -> None:
    assert kept_value('W/"abc"') == 'W/"abc"'
    for bad in (None, "", "a\r\nHost: evil", "é", "x" * 513):
        assert kept_value(bad) is None


def test_we_introduce_ourselves() -> None:
    assert user_agent("1.2", "https://a.example/bot") == "TelegramAssistant/1.2 (+https://a.example/bot)"
    assert user_agent("1.2", "  ") == "TelegramAssistant/1.2"
    assert user_agent("1.2", "a)\r\nX: (я b") == "TelegramAssistant/1.2 (+aX:  b)"
