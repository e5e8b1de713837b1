"""The names that operators and dashboards already rely on (SPEC 1 to 4)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from telegram_assistant import names

pytestmark = pytest.mark.unit


def test_streams() -> None:
    assert names.stream(names.POSTS_PARSED) == "stream:posts:parsed"
    assert names.stream(names.ALBUMS_PARSED) == "stream:albums:parsed"
    assert names.stream("posts.vision.analyzed") == "stream:posts:vision:analyzed"


def test_keys() -> None:
    assert names.SCHEDULER_LOCK == "scheduler:lock"
    assert names.parse_hwm(42) == "parse_hwm:42"
    assert names.interarrival_stats(42) == "interarrival_stats:42"
    assert names.low_watermark(42) == "low_watermark:42"
    assert names.backfill_lock(42) == "lock:backfill:42"
    window = datetime(2025, 11, 15, 12, 30, tzinfo=UTC)
    assert names.backfill_job(42, window) == "backfill_job:42:2025-11-15T12:30:00+00:00"
