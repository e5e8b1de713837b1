"""Metrics of channels: each has its own, and above the limit all have one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from telegram_assistant.channel_metrics import ALL, ChannelCounter, ChannelGauge, ChannelHistogram, ChannelLabels

pytestmark = pytest.mark.unit

BUCKETS = (1.0, 5.0, 60.0)


class Bench:
    """A registry of its own with one metric of each kind."""

    def __init__(self, limit: int | None, combine: Callable[[Iterable[float]], float] = max) -> None:
        self.registry = CollectorRegistry()
        self.labels = ChannelLabels(limit)
        self.gauge = ChannelGauge("age", "How old", self.labels, combine=combine, registry=self.registry)
        self.counter = ChannelCounter("jobs_total", "How many", self.labels, "status", registry=self.registry)
        self.histogram = ChannelHistogram(
            "wait_seconds", "How long", self.labels, buckets=BUCKETS, registry=self.registry
        )

    def value(self, name: str, channel_id: object, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"channel_id": str(channel_id), **labels})


def test_each_channel_has_its_own_up_to_the_limit() -> None:
    bench = Bench(limit=2)
    for channel_id, age in ((1, 10.0), (2, 20.0)):
        bench.gauge.labels(channel_id).set(age)
        bench.counter.labels(channel_id, "failed").inc(channel_id)
        bench.histogram.labels(channel_id).observe(age)
    assert [bench.value("age", one) for one in (1, 2, ALL)] == [10, 20, None]
    assert [bench.value("jobs_total", one, status="failed") for one in (1, 2, ALL)] == [1, 2, None]
    assert [bench.value("wait_seconds_sum", one) for one in (1, 2, ALL)] == [10, 20, None]


def test_above_the_limit_all_have_one() -> None:
    """Of every metric, also of those that few channels have."""
    bench = Bench(limit=2)
    bench.counter.labels(1, "failed").inc(5)
    bench.histogram.labels(1).observe(2)
    for channel_id in (1, 2, 3):
        bench.gauge.labels(channel_id).set(10.0 * channel_id)
    assert [bench.value("age", one) for one in (1, 2, 3, ALL)] == [None, None, None, 30]
    assert bench.value("jobs_total", ALL, status="failed") == 5
    assert bench.value("wait_seconds_count", ALL) == 1
    assert bench.value("wait_seconds_count", 1) is None


@pytest.mark.parametrize("combine, expected", [(max, 30.0), (min, 10.0), (sum, 60.0)])
def test_one_value_is_made_of_all(combine: Callable[[Iterable[float]], float], expected: float) -> None:
    bench = Bench(0, combine)
    for channel_id in (1, 2, 3):
        bench.gauge.labels(channel_id).set(10.0 * channel_id)
    assert bench.value("age", ALL) == expected


def test_the_number_of_series_is_bounded() -> None:
    bench = Bench(limit=50)
    for channel_id in range(10_000):
        bench.gauge.labels(channel_id).set(1)
        bench.counter.labels(channel_id, "failed").inc()
        bench.histogram.labels(channel_id).observe(2)
    samples = [line for line in generate_latest(bench.registry).splitlines() if not line.startswith(b"#")]
    assert len(samples) == 1 + 1 + len(BUCKETS) + 3


def test_a_channel_that_is_gone_has_no_series_and_the_others_theirs_again() -> None:
    bench = Bench(limit=1)
    for channel_id in (1, 2):
        bench.gauge.labels(channel_id).set(channel_id)
    bench.labels.forget([2, 99])
    assert [bench.value("age", one) for one in (1, 2, ALL)] == [1, None, None]


def test_a_sum_never_falls() -> None:
    """Prometheus would take it for a restart, and count everything once more."""
    bench = Bench(limit=0)
    for channel_id in (1, 2):
        bench.counter.labels(channel_id, "failed").inc(channel_id)
        bench.histogram.labels(channel_id).observe(3)
    bench.labels.forget([2])
    assert bench.value("jobs_total", ALL, status="failed") == 3
    assert bench.value("wait_seconds_bucket", ALL, le="5.0") == 2
    assert bench.value("wait_seconds_sum", ALL) == 6


@given(st.lists(st.floats(0, 200), max_size=30))
def test_a_histogram_is_what_the_library_makes_of_the_same(values: list[float]) -> None:
    bench, registry = Bench(limit=None), CollectorRegistry()
    library = Histogram("wait_seconds", "How long", ["channel_id"], buckets=BUCKETS, registry=registry)
    ours = bench.histogram.labels(7)
    theirs = library.labels(7)
    for value in values:
        ours.observe(value)
        theirs.observe(value)
    written = generate_latest(bench.registry).decode().splitlines()
    expected = [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]
    assert {line for line in expected if "wait" in line} == {line for line in written if "wait" in line}
