"""Times enter and leave Redis aware, in one place (SPEC 7.2; LESSONS 10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.stores.redis import time_from_text, time_to_text

pytestmark = pytest.mark.unit

MOSCOW = timezone(timedelta(hours=3))
NAIVE = datetime(2025, 11, 15, 12, 30)  # noqa: DTZ001 - the wrong kind, on purpose


@given(st.datetimes(timezones=st.sampled_from([UTC, MOSCOW])))
def test_what_goes_in_comes_out(moment: datetime) -> None:
    assert time_from_text(time_to_text(moment)) == moment


def test_nothing_is_nothing() -> None:
    assert time_from_text(None) is None


def test_a_naive_time_is_not_written() -> None:
    with pytest.raises(ValueError, match="naive"):
        time_to_text(NAIVE)


def test_a_naive_time_is_not_read() -> None:
    with pytest.raises(ValueError, match="naive"):
        time_from_text("2025-11-15T12:30:00")


@pytest.mark.parametrize("text", ["", "None", "yesterday", "1763208000"])
def test_what_is_no_time_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid isoformat"):
        time_from_text(text)


def test_bytes_are_read_like_text() -> None:
    """The first system patched six call sites for this (SPEC 7.2)."""
    moment = datetime(2025, 11, 15, 12, 30, tzinfo=UTC)
    assert time_from_text(time_to_text(moment).encode()) == moment
