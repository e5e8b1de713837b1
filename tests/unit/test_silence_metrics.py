"""SPEC 3.7: the metrics of silence by their names and labels, and what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.gauges import show
from telegram_assistant.ingest.parser import observe_intervals
from telegram_assistant.ingest.saver import Saved
from telegram_assistant.metrics import BACKFILL_JOBS, CHANNEL_GAP, INTERARRIVAL, LAST_SUCCESS, REGISTRY, THRESHOLD
from telegram_assistant.stores.postgres.channels import Standing

pytestmark = pytest.mark.unit

START = datetime(2026, 1, 7, 12, tzinfo=UTC)
NAMED = {
    "channel_last_post_timestamp_seconds": ("gauge", ("channel_id",)),
    "parser_last_success_seconds": ("gauge", ("channel_id",)),
    "adaptive_threshold_seconds": ("gauge", ("channel_id",)),
    "channel_gap_seconds": ("gauge", ("channel_id",)),
    "backfill_jobs": ("counter", ("channel_id", "status")),  # exported with _total
    "interarrival_seconds": ("histogram", ("channel_id",)),
    "posts_missing_duration_seconds": ("gauge", ()),
}


def saved(*minutes: float, group: int | None = None) -> Saved:
    posts = [
        Post(channel_id=9, message_id=int(at * 60) + 1, posted_at=START + timedelta(minutes=at), grouped_id=group)
        for at in minutes
    ]
    return Saved(new=posts)


def observed(channel_id: int) -> tuple[float, float]:
    labels = {"channel_id": str(channel_id)}
    found = [REGISTRY.get_sample_value(f"interarrival_seconds_{part}", labels) for part in ("count", "sum")]
    return found[0] or 0.0, found[1] or 0.0


@pytest.mark.parametrize("name", NAMED)
def test_spec_3_7_names_kinds_and_labels(name: str) -> None:
    for metric in (THRESHOLD, CHANNEL_GAP, LAST_SUCCESS, INTERARRIVAL):
        metric.labels(channel_id=7)  # a metric with labels has samples only once it was used
    BACKFILL_JOBS.labels(channel_id=7, status="enqueued").inc(0)
    show(standing(7), START)
    kind, labels = NAMED[name]
    (family,) = [found for found in REGISTRY.collect() if found.name == name]
    assert family.type == kind
    (sample, *_) = [one for one in family.samples if not one.name.endswith("_created")]
    assert set(labels) == set(sample.labels) - {"le"}


def test_spec_3_7_an_interval_is_observed_once_and_an_album_is_one_arrival() -> None:
    last = observe_intervals(31, None, saved(0, 10))
    assert observed(31) == (1, 600)
    last = observe_intervals(31, last, saved(30, 30.1, 30.2, group=5))
    assert observed(31) == (2, 1800)
    assert last == START + timedelta(minutes=30)
    assert observe_intervals(31, last, saved()) == last
    assert observed(31) == (2, 1800)


def test_spec_3_7_a_late_post_makes_no_interval_of_its_own() -> None:
    """It lies within one that was observed already."""
    last = observe_intervals(32, START + timedelta(minutes=20), saved(5))
    assert observed(32) == (0, 0)
    assert last == START + timedelta(minutes=20)


def standing(channel_id: int, *, at: datetime | None = START) -> Standing:
    return Standing(channel_id, "@x", "active", 3, 5, 5, 5, at, at, None)


def test_spec_3_7_last_post_and_last_success_are_the_channels_own() -> None:
    show(standing(33), START + timedelta(minutes=5))
    labels = {"channel_id": "33"}
    assert REGISTRY.get_sample_value("channel_last_post_timestamp_seconds", labels) == START.timestamp()
    assert REGISTRY.get_sample_value("parser_last_success_seconds", labels) == START.timestamp()
    show(standing(34, at=None), START)
    assert REGISTRY.get_sample_value("parser_last_success_seconds", {"channel_id": "34"}) is None
