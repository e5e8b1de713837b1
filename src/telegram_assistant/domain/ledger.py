"""The proof that nothing is missed: which message ids of a channel are known, and which are not."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

Span = tuple[int, int]  # half-open: the first id in it, and the first id after it

_start_of = itemgetter(0)
_stop_of = itemgetter(1)
_PG_RANGE = re.compile(r"([\[(])\s*(-?\d+)\s*,\s*(-?\d+)\s*([\])])|empty", re.ASCII)
_PG_SEPARATOR = re.compile(r"\s*,\s*")
STRIDE = 20_000  # ids at most that are gone through at once


@dataclass(frozen=True, slots=True)
class Coverage:
    """An immutable set of ids kept as half-open ranges, equal to PostgreSQL's `int8multirange`.

    The ranges are sorted, not empty, and neither overlap nor touch, so equal sets are equal values.
    """

    ranges: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        previous_stop: int | None = None
        for start, stop in self.ranges:
            if start >= stop or (previous_stop is not None and start <= previous_stop):
                raise ValueError(f"ranges are not in normal form: {self.ranges}; use Coverage.of_spans")
            previous_stop = stop

    @classmethod
    def of_spans(cls, *spans: Span) -> Coverage:
        """Any half-open ranges, in any order, overlapping or not."""
        merged: list[Span] = []
        for start, stop in sorted(spans):
            _check(start, stop)
            if start == stop:
                continue
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        return cls(tuple(merged))

    @classmethod
    def of_ids(cls, ids: Iterable[int]) -> Coverage:
        """Exactly these ids: what reading messages by their ids proves, found or not."""
        return cls.of_spans(*((message_id, message_id + 1) for message_id in ids))

    @classmethod
    def parse(cls, text: str) -> Coverage:
        """PostgreSQL's text form, `{[1,5),[7,9)}`; other kinds of brackets are read as PostgreSQL reads them."""
        body = text.strip()
        if not (body.startswith("{") and body.endswith("}")):
            raise ValueError(f"{text!r} is not a multirange like {{[1,5),[7,9)}}")
        body = body[1:-1].strip()
        spans: list[Span] = []
        position = 0
        while position < len(body):
            found = _PG_RANGE.match(body, position)
            if found is None:
                raise ValueError(f"{text!r} is not a multirange of bounded integer ranges, at {body[position:]!r}")
            if found[0] != "empty":
                spans.append((int(found[2]) + (found[1] == "("), int(found[3]) + (found[4] == "]")))
            position = found.end()
            if position < len(body):
                separator = _PG_SEPARATOR.match(body, position)
                if separator is None or separator.end() == len(body):
                    raise ValueError(f"{text!r} is not a multirange: its ranges are separated by single commas")
                position = separator.end()
        return cls.of_spans(*spans)

    def __str__(self) -> str:
        return "{" + ",".join(f"[{start},{stop})" for start, stop in self.ranges) + "}"

    def __iter__(self) -> Iterator[Span]:
        return iter(self.ranges)

    def __contains__(self, message_id: int) -> bool:
        at = bisect_right(self.ranges, message_id, key=_start_of)
        return at > 0 and message_id < self.ranges[at - 1][1]

    @property
    def count(self) -> int:
        """How many ids are in it."""
        return sum(stop - start for start, stop in self.ranges)

    @property
    def is_empty(self) -> bool:
        return not self.ranges

    def covers(self, start: int, stop: int) -> bool:
        """Whether every id from `start` up to but not including `stop` is in it."""
        return self.gaps(start, stop).is_empty

    def add(self, start: int, stop: int) -> Coverage:
        """With one range more. Costs a search and a copy, for it runs with every page that is read."""
        _check(start, stop)
        if start == stop:
            return self
        # Ranges that touch the new one melt into it, so equality with `start` and `stop` counts.
        left = bisect_left(self.ranges, start, key=_stop_of)
        right = bisect_right(self.ranges, stop, key=_start_of)
        if left < right:
            start = min(start, self.ranges[left][0])
            stop = max(stop, self.ranges[right - 1][1])
        return Coverage((*self.ranges[:left], (start, stop), *self.ranges[right:]))

    def union(self, other: Coverage) -> Coverage:
        if len(other.ranges) == 1:
            return self.add(*other.ranges[0])
        return Coverage.of_spans(*self.ranges, *other.ranges)

    def intersection(self, other: Coverage) -> Coverage:
        shared: list[Span] = []
        mine, theirs = 0, 0
        while mine < len(self.ranges) and theirs < len(other.ranges):
            start = max(self.ranges[mine][0], other.ranges[theirs][0])
            stop = min(self.ranges[mine][1], other.ranges[theirs][1])
            if start < stop:
                shared.append((start, stop))
            if self.ranges[mine][1] == stop:
                mine += 1
            else:
                theirs += 1
        return Coverage(tuple(shared))

    def subtract(self, other: Coverage) -> Coverage:
        if self.is_empty:
            return self
        return self.intersection(other.gaps(self.ranges[0][0], self.ranges[-1][1]))

    def gaps(self, lower: int, upper: int) -> Coverage:
        """What is not in it, of the ids from `lower` up to but not including `upper`."""
        _check(lower, upper)
        missing: list[Span] = []
        position = lower
        for start, stop in self.ranges[bisect_right(self.ranges, lower, key=_stop_of) :]:
            if start >= upper:
                break
            if position < start:
                missing.append((position, start))
            position = stop
        if position < upper:
            missing.append((position, upper))
        return Coverage(tuple(missing))


def _check(start: int, stop: int) -> None:
    if start > stop:
        raise ValueError(f"a range starts at {start} but ends before it, at {stop}")


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What is known of one channel. Of the ids 1 … newest each is captured, empty, unknown, hidden or not requested.

    `requested_from` is the lowest id that was asked for; `newest_id + 1` when nothing was asked for yet.
    """

    newest_id: int  # 0 for a channel without messages
    requested_from: int
    coverage: Coverage
    captured: int  # posts in the store, of any id
    hidden_up_to: int = 0  # what was said before our accounts joined, and the group does not show them

    def __post_init__(self) -> None:
        if self.newest_id < 0 or self.requested_from < 1 or self.captured < 0:
            raise ValueError(f"ids begin at 1 and counts at 0: {self!r}")

    @property
    def covered(self) -> int:
        """Ids that are proven, wherever they lie: a re-read album may reach below what was requested."""
        return self.coverage.intersection(Coverage.of_spans((1, self.newest_id + 1))).count

    @property
    def empty(self) -> int:
        """Ids that are proven to hold no post: deleted, or never used.

        A post that another producer told of may lie above the newest id that Telegram has shown us.
        """
        return max(0, self.covered - self.captured)

    @property
    def gaps(self) -> Coverage:
        """The unknown ids themselves: what a backfill has to read."""
        top = self.newest_id + 1
        return self.coverage.gaps(min(self.requested_from, top), top)

    @property
    def holes(self) -> list[tuple[int, int]]:
        """The same as people read them: the first and the last id of each."""
        return [(start, stop - 1) for start, stop in self.gaps]

    @property
    def unknown(self) -> int:
        return self.gaps.count

    @property
    def not_requested(self) -> int:
        """Older ids that were not asked for, and that nothing else proved by the way."""
        return self.newest_id - self.covered - self.unknown - self.hidden

    @property
    def hidden(self) -> int:
        """Ids of which our accounts are shown nothing: neither empty nor to be read, until another one joins."""
        stop = min(self.hidden_up_to, self.newest_id, self.requested_from - 1) + 1
        return self.coverage.gaps(1, stop).count if stop > 1 else 0

    @property
    def proven_up_to(self) -> int:
        """The highest id with nothing unknown between `requested_from` and it; one below that when none is."""
        for start, _ in self.gaps:
            return start - 1
        return self.newest_id

    @property
    def percent(self) -> float:
        """Known share of the requested ids, rounded down: it says 100 only when nothing is unknown."""
        requested = max(0, self.newest_id + 1 - self.requested_from)
        if requested == 0:
            return 100.0
        return (requested - self.unknown) * 10_000 // requested / 100


def page_proves(after_id: int, ids: Collection[int], *, limit: int, reached_end: bool, newest_id: int) -> Coverage:
    """Which ids a page proves that was read oldest first, with at most `limit` messages whose ids are > `after_id`.

    The page holds the lowest existing ids after `after_id`, hence every id between that and its last one is
    either in it or empty. What lies beyond the last id it proves only if it was the end of the history. A page with
    room left before the end proves what it shows and no more: messages were left out of it, and it is not known which.

    `newest_id` must have been known before the page was asked for. A post that arrived while the page was under
    way is not in it, and would be taken for an empty id for ever.
    """
    if after_id < 0 or limit < 1:
        raise ValueError(f"a page is read after an id >= 0 with a limit >= 1, not {after_id} and {limit}")
    if len(ids) > limit:
        raise ValueError(f"a page of at most {limit} messages has {len(ids)}: it is not the answer to this request")
    if ids and min(ids) <= after_id:
        # At the top Telegram fills a page up with older messages; the source has to drop them before.
        raise ValueError(f"a page after {after_id} holds {min(ids)}: it is not the answer to this request")

    if 0 < len(ids) < limit and not reached_end:
        return Coverage.of_ids(ids)
    last = max(ids, default=after_id)
    # An empty page is a sign of the end: with a limit of at least 1 a message after `after_id` would have been in it.
    if reached_end or not ids:
        # The last id can be above the newest that was known (a new post), or below it (the newest were deleted).
        last = max(last, newest_id)
    return Coverage.of_spans((after_id + 1, last + 1))


def run_proves(top_id: int, ids: Collection[int], *, limit: int) -> Coverage:
    """Which ids a page proves that was counted down from `top_id`: the `limit` newest messages not above it.

    As many as were asked for follow each other without a hole. Fewer: messages were left out, or there are no more.
    """
    if len(ids) > limit or (ids and max(ids) > top_id):
        raise ValueError(f"the {limit} newest messages up to {top_id} are not {sorted(ids)}")
    return Coverage.of_spans((min(ids), top_id + 1)) if len(ids) == limit else Coverage.of_ids(ids)


def stride(coverage: Coverage, newest_id: int, after_id: int) -> Coverage:
    """The next known ids after this one, up to a stride, for an audit. At the end they begin anew.

    A loss hides among the ids that a page once proved empty, so an audit goes through them from end to end.
    """
    known = coverage.intersection(Coverage.of_spans((1, newest_id + 1)))
    ahead = known.subtract(Coverage.of_spans((1, max(1, after_id + 1))))
    if known.count <= STRIDE or ahead.is_empty:
        ahead = known
    start = ahead.ranges[0][0] if ahead.ranges else 0
    return ahead if known.count <= STRIDE else ahead.intersection(Coverage.of_spans((start, start + STRIDE)))


def next_ids(coverage: Coverage, after_id: int, size: int) -> list[int]:
    """The first ids of it after this one; when there are no more, those from its beginning."""
    ahead = coverage.subtract(Coverage.of_spans((1, max(1, after_id + 1))))
    ids = (i for part in (ahead, coverage.subtract(ahead)) for start, stop in part for i in range(start, stop))
    return list(islice(ids, size))
