"""The Retry-After header in both of its forms, and nonsense."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from telegram_assistant.domain.retries import seconds_to_wait

pytestmark = pytest.mark.unit

NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "header,seconds",
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("999999", 3600.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Wed, 01 May 2024 12:01:00 GMT", 60.0),
        ("Wed, 01 May 2024 12:01:00 -0000", 60.0),
        ("Wed, 01 May 2024 11:00:00 GMT", 0.0),
    ],
)
def test_seconds(header: str | None, seconds: float | None) -> None:
    assert seconds_to_wait(header, NOW) == seconds
