"""What a load run was asked for, and what was seen of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from uuid import UUID

from bench.load_verdict import Verdict
from bench.load_watch import Sample

OURS = ("ingest", "worker", "api")
OTHERS = "others on this machine"


@dataclass(frozen=True)
class Plan:
    """How many, how fast, how long."""

    soak: bool
    channels: int
    rate: float  # posts a second
    seconds: float
    workers: int
    changed: float  # edits and deletions per post
    quiet_seconds: float
    patience: float  # seconds that are waited for what is left
    every: float = 2.0  # seconds between two samples

    def name(self, *, models: bool) -> str:
        kind = "soak" if self.soak else "load"
        return kind if self.soak and models else f"{kind}-{'on' if models else 'off'}"


@dataclass
class Marks:
    """Epoch seconds at which something began."""

    quiet: float = 0.0
    began: float = 0.0  # the load
    posted: float = 0.0  # the last post
    calm: float | None = None  # nothing waited any more


@dataclass(frozen=True)
class Spread:
    """Half of them are below the median, 95 of a hundred below the other."""

    median: float
    p95: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        ordered = sorted(values)
        if not ordered:
            return cls(0.0, 0.0, 0)
        last = len(ordered) - 1
        return cls(ordered[min(last, len(ordered) // 2)], ordered[min(last, int(0.95 * len(ordered)))], len(ordered))


@dataclass(frozen=True)
class Window:
    """The time between two samples: posts that came, were saved and were indexed in it."""

    at: float  # seconds since the load began
    seconds: float
    posted: int
    saved: int
    indexed: int
    to_saved: Spread
    to_indexed: Spread
    search: Spread
    last: Sample


@dataclass(frozen=True)
class _Found:
    """What happened when, and how long it took, each in order of time."""

    posted: Sequence[tuple[float, float]]
    saved: Sequence[tuple[float, float]]
    indexed: Sequence[tuple[float, float]]
    searches: Sequence[tuple[float, float]]


def _between(found: Sequence[tuple[float, float]], begin: float, end: float) -> list[float]:
    low, high = (bisect_left(found, at, key=itemgetter(0)) for at in (begin, end))
    return [took for _, took in found[low:high]]


@dataclass(frozen=True)
class Outcome:
    """Everything of one run."""

    name: str
    plan: Plan
    models: bool
    marks: Marks
    samples: Sequence[Sample]
    published: Mapping[UUID, float]
    saved: Mapping[UUID, float]
    found: Mapping[UUID, float]  # by its words
    indexed: Mapping[UUID, float]
    searches: Sequence[tuple[float, float]]
    searches_failed: int
    lines: Counter[str]
    restarts: int
    behind: float
    edited: int
    deleted: int
    verdict: Verdict

    @property
    def posts(self) -> int:
        """Posted by the load."""
        return sum(at >= self.marks.began for at in self.published.values())

    @property
    def rate(self) -> float:
        """That was really posted, a second."""
        return self.posts / (self.marks.posted - self.marks.began)

    @property
    def indexed_rate(self) -> float:
        """A second, while posts came."""
        began, posted = self.marks.began, self.marks.posted
        return sum(began <= at < posted for at in self.indexed.values()) / (posted - began)

    @property
    def most_behind(self) -> int:
        """Posts that were there and not indexed, at worst."""
        return max(sample.posted - sample.indexed for sample in self.during)

    @property
    def during(self) -> list[Sample]:
        """Samples since the load began."""
        return [sample for sample in self.samples if sample.at >= self.marks.began]

    def delays(self, done: Mapping[UUID, float], *, quiet: bool = False) -> Spread:
        """From the post to that, of the posts of the load, or of the quiet before it."""
        began = self.marks.began
        chosen = {post: at for post, at in self.published.items() if (at < began) is quiet}
        return Spread.of([done[post] - at for post, at in chosen.items() if post in done])

    def search(self) -> Spread:
        return Spread.of([took for at, took in self.searches if at >= self.marks.began])

    def memory(self, begin: float, end: float) -> dict[str, float]:
        """Megabytes by role: the mean within that share of the time in which posts came."""
        some = self._share(begin, end)
        roles = dict.fromkeys(role for sample in some for role in sample.use)
        return {role: sum(one.use[role].memory for one in some if role in one.use) / len(some) for role in roles}

    def cores(self) -> dict[str, float]:
        """CPU that each role used while posts came, in cores."""
        some = self._share(0.0, 1.0)
        first, last = some[0], some[-1]
        seconds = max(1e-9, last.at - first.at)
        used = {role: max(0.0, use.cpu - first.use[role].cpu) / seconds for role, use in last.use.items()}
        return used | {OTHERS: max(0.0, (last.busy - first.busy) / seconds - sum(used.values()))}

    def windows(self, count: int) -> list[Window]:
        """The time since the load began, in at most so many parts that begin and end with a sample."""
        chosen = self.during
        step = -(-len(chosen) // count)
        edges = [*chosen[:-1:step], chosen[-1]] if len(chosen) > 1 else []
        found = _Found(
            posted=sorted((at, 0.0) for at in self.published.values()),
            saved=self._finished(self.saved),
            indexed=self._finished(self.indexed),
            searches=sorted(self.searches),
        )
        return [self._window(before, after, found) for before, after in pairwise(edges)]

    def _window(self, before: Sample, after: Sample, found: _Found) -> Window:
        saved, indexed = (_between(some, before.at, after.at) for some in (found.saved, found.indexed))
        return Window(
            at=after.at - self.marks.began,
            seconds=after.at - before.at,
            posted=len(_between(found.posted, before.at, after.at)),
            saved=len(saved),
            indexed=len(indexed),
            to_saved=Spread.of(saved),
            to_indexed=Spread.of(indexed),
            search=Spread.of(_between(found.searches, before.at, after.at)),
            last=after,
        )

    def _finished(self, done: Mapping[UUID, float]) -> list[tuple[float, float]]:
        """When each post got there, and how long after it was posted."""
        return sorted((at, at - self.published[post]) for post, at in done.items() if post in self.published)

    def _share(self, begin: float, end: float) -> list[Sample]:
        length = self.marks.posted - self.marks.began
        low, high = self.marks.began + begin * length, self.marks.began + end * length
        return [sample for sample in self.samples if low <= sample.at <= high] or [self.samples[-1]]
