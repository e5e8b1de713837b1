"""The metrics: every name that the contract gives to operators, and the page about them."""

from __future__ import annotations

import pytest

from monitoring.generate.metrics_page import BOUNDS, described_metrics, page
from telegram_assistant.metrics import REGISTRY
from tests.monitoring.conftest import ROOT

pytestmark = pytest.mark.unit

# SPEC 1 to 6 and 8, by section; labels as they stand there.
SPEC = {
    "parser_mode_forced_total": {"reason"},
    "scheduler_lock_acquired_total": {"status"},
    "parser_retries_total": {"reason"},
    "parser_floodwait_seconds_total": set(),
    "scheduler_last_tick_ts_seconds": set(),
    "parser_hwm_age_seconds": {"channel_id"},
    "posts_parsed_total": {"mode"},
    "channel_last_post_timestamp_seconds": {"channel_id"},
    "parser_last_success_seconds": {"channel_id"},
    "adaptive_threshold_seconds": {"channel_id"},
    "channel_gap_seconds": {"channel_id"},
    "backfill_jobs_total": {"channel_id", "status"},
    "interarrival_seconds": {"channel_id"},
    "posts_missing_duration_seconds": set(),
    "parser_runs_total": {"mode", "status"},
    "parsing_duration_seconds": set(),
    "incremental_watermark_age_seconds": {"channel_id"},
    "posts_processed_total": {"stage", "success"},
    "stream_pending_size": {"stream", "group"},
    "stream_consumer_lag": {"stream", "group"},
}
HISTOGRAMS = {"interarrival_seconds", "parsing_duration_seconds"}


def kind_of(name: str) -> str:
    if name in HISTOGRAMS:
        return "histogram"
    return "counter" if name.endswith("_total") else "gauge"


@pytest.mark.parametrize("name", SPEC)
def test_every_name_of_the_contract_is_there(name: str) -> None:
    (metric,) = [one for one in described_metrics() if one.name == name]
    assert set(metric.labels) == SPEC[name]
    assert metric.kind == kind_of(name)


def test_what_is_read_from_the_source_is_what_is_exported() -> None:
    described = {(one.name, one.kind) for one in described_metrics()}
    exported = {
        (f"{family.name}_total" if family.type == "counter" else family.name, family.type)
        for family in REGISTRY.collect()
        if not family.name.startswith("process_")
    }
    assert described == exported


def test_every_label_says_what_bounds_it() -> None:
    assert {label for one in described_metrics() for label in one.labels} == set(BOUNDS)


def test_no_label_is_one_that_prometheus_keeps_for_itself() -> None:
    """It would come back as exported_job."""
    assert {"job", "instance"} & {label for one in described_metrics() for label in one.labels} == set()


def test_only_channels_have_a_label_that_may_be_too_many() -> None:
    """Each metric with that label can do without it."""
    assert {one.name for one in described_metrics() if "channel_id" in one.labels and not one.together} == set()


def test_the_page_is_what_the_code_makes() -> None:
    assert (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8") == page(), "run scripts/metrics"
