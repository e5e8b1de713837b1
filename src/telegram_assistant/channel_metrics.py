"""Metrics of single channels: a series for each, or one for all of them where there are too many to show."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

ALL = "all"  # the channel_id of what is aggregated
CHANNEL = "channel_id"


class ChannelLabels:
    """Whether channels have series of their own: all of them, or none when there are more than `limit`."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.total = 0  # channels that there are, also those of which no metric has told yet
        self._ids: set[str] = set()
        self._metrics: list[ChannelGauge | ChannelCounter | ChannelHistogram] = []

    @property
    def shown(self) -> bool:
        return self.limit is None or max(self.total, len(self._ids)) <= self.limit

    def watch(self, metric: ChannelGauge | ChannelCounter | ChannelHistogram) -> None:
        self._metrics.append(metric)

    def note(self, channel_id: int) -> str:
        """The label of a channel that a metric tells of."""
        label = str(channel_id)
        self._ids.add(label)
        return label

    def forget(self, channel_ids: Iterable[int]) -> None:
        """Channels that are not watched any more."""
        gone = {str(channel_id) for channel_id in channel_ids} & self._ids
        self._ids -= gone
        for metric in self._metrics:
            metric.forget(gone)


class GaugeCell:
    """The value of one channel."""

    __slots__ = ("_id", "_values")

    def __init__(self, values: dict[str, float], channel_id: str) -> None:
        self._values = values
        self._id = channel_id

    def set(self, value: float) -> None:
        self._values[self._id] = float(value)


class ChannelGauge(Collector):
    """`combine` makes one value of all: the worst of them, or their sum."""

    def __init__(
        self,
        name: str,
        documentation: str,
        channels: ChannelLabels,
        *,
        combine: Callable[[Iterable[float]], float],
        registry: CollectorRegistry,
    ) -> None:
        self._name, self._documentation = name, documentation
        self._channels = channels
        self._combine = combine
        self._values: dict[str, float] = {}
        self._together: float | None = None
        channels.watch(self)
        registry.register(self)

    def labels(self, channel_id: int) -> GaugeCell:
        label = self._channels.note(channel_id)
        self._values.setdefault(label, 0.0)
        return GaugeCell(self._values, label)

    def set_together(self, value: float) -> None:
        """The one value of all channels, where PostgreSQL has combined them already."""
        self._together = value

    def forget(self, channel_ids: AbstractSet[str]) -> None:
        for channel_id in channel_ids & self._values.keys():
            del self._values[channel_id]

    def describe(self) -> list[Metric]:
        return [self._family()]

    def collect(self) -> list[Metric]:
        family = self._family()
        if self._channels.shown:
            for channel_id, value in self._values.items():
                family.add_metric([channel_id], value)
        elif self._together is not None:
            family.add_metric([ALL], self._together)
        elif self._values:
            family.add_metric([ALL], self._combine(self._values.values()))
        return [family]

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._name, self._documentation, labels=[CHANNEL])


class CounterCell:
    """The count of one channel and status, or of all channels and a status."""

    __slots__ = ("count",)

    def __init__(self, count: float = 0.0) -> None:
        self.count = count

    def inc(self, amount: float = 1) -> None:
        self.count += amount


class ChannelCounter(Collector):
    """Counts of channels by a second label; together they are summed, and a sum never falls."""

    def __init__(
        self, name: str, documentation: str, channels: ChannelLabels, label: str, *, registry: CollectorRegistry
    ) -> None:
        self._name, self._documentation, self._label = name, documentation, label
        self._channels = channels
        self._cells: dict[tuple[str, str], CounterCell] = {}
        self._rest: dict[str, CounterCell] = {}  # of channels that were forgotten, or never had a series
        channels.watch(self)
        registry.register(self)

    def labels(self, channel_id: int, status: str) -> CounterCell:
        label = self._channels.note(channel_id)
        if not self._channels.shown:
            return self._rest.setdefault(str(status), CounterCell())
        return self._cells.setdefault((label, str(status)), CounterCell())

    def forget(self, channel_ids: AbstractSet[str]) -> None:
        for key in [key for key in self._cells if key[0] in channel_ids]:
            self._rest.setdefault(key[1], CounterCell()).inc(self._cells.pop(key).count)

    def describe(self) -> list[Metric]:
        return [self._family()]

    def collect(self) -> list[Metric]:
        family = self._family()
        if self._channels.shown:
            for (channel_id, status), cell in self._cells.items():
                family.add_metric([channel_id, status], cell.count)
            return [family]
        totals = {status: cell.count for status, cell in self._rest.items()}
        for (_, status), cell in self._cells.items():
            totals[status] = totals.get(status, 0.0) + cell.count
        for status, count in totals.items():
            family.add_metric([ALL, status], count)
        return [family]

    def _family(self) -> CounterMetricFamily:
        return CounterMetricFamily(self._name, self._documentation, labels=[CHANNEL, self._label])


class HistogramCell:
    """What was observed of one channel."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last is above every bound
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def add(self, other: HistogramCell) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


class ChannelHistogram(Collector):
    """Observations by channel; together they are added up."""

    def __init__(
        self,
        name: str,
        documentation: str,
        channels: ChannelLabels,
        *,
        buckets: tuple[float, ...],
        registry: CollectorRegistry,
    ) -> None:
        self._name, self._documentation = name, documentation
        self._channels = channels
        self._bounds = buckets
        self._cells: dict[str, HistogramCell] = {}
        self._rest = HistogramCell(buckets)  # of channels that were forgotten, or never had a series
        channels.watch(self)
        registry.register(self)

    def labels(self, channel_id: int) -> HistogramCell:
        label = self._channels.note(channel_id)
        if not self._channels.shown:
            return self._rest
        return self._cells.setdefault(label, HistogramCell(self._bounds))

    def forget(self, channel_ids: AbstractSet[str]) -> None:
        for channel_id in channel_ids & self._cells.keys():
            self._rest.add(self._cells.pop(channel_id))

    def describe(self) -> list[Metric]:
        return [self._family()]

    def collect(self) -> list[Metric]:
        family = self._family()
        if self._channels.shown:
            for channel_id, cell in self._cells.items():
                self._add(family, channel_id, cell)
            return [family]
        total = HistogramCell(self._bounds)
        for cell in (self._rest, *self._cells.values()):
            total.add(cell)
        self._add(family, ALL, total)
        return [family]

    def _add(self, family: HistogramMetricFamily, channel_id: str, cell: HistogramCell) -> None:
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        family.add_metric([channel_id], list(zip(names, accumulate(cell.counts), strict=True)), cell.sum)

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self._documentation, labels=[CHANNEL])
