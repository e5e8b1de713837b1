"""Which ids an audit reads again: the empty ones in turn, and a sample of all that is known, the recent more densely.

What is lost hides among the ids that a page once proved empty. So those are gone through from end to end, and then
again; the rest is drawn at random.
"""

from __future__ import annotations

from itertools import islice
from random import Random

from telegram_assistant.domain.ledger import Coverage

RECENT_IDS = 1000
STRIDE = 20_000  # ids at most that are gone through at once


def sample_ids(coverage: Coverage, newest_id: int, size: int, rng: Random) -> list[int]:
    """At most `size` different known ids, half of them among the newest thousand; ascending."""
    known = coverage.intersection(Coverage.of((1, newest_id + 1)))
    recent = known.intersection(Coverage.of((max(1, newest_id - RECENT_IDS + 1), newest_id + 1)))
    chosen = _pick(recent, size // 2, rng)
    others = known.subtract(Coverage.of_ids(chosen))
    return sorted([*chosen, *_pick(others, size - len(chosen), rng)])


def stride(coverage: Coverage, newest_id: int, after_id: int) -> Coverage:
    """The next known ids after this one, up to a stride; at the end they begin anew. A small channel is one stride."""
    known = coverage.intersection(Coverage.of((1, newest_id + 1)))
    ahead = known.subtract(Coverage.of((1, max(1, after_id + 1))))
    if known.count <= STRIDE or ahead.is_empty:
        ahead = known
    start = ahead.ranges[0][0] if ahead.ranges else 0
    return ahead if known.count <= STRIDE else ahead.intersection(Coverage.of((start, start + STRIDE)))


def next_ids(coverage: Coverage, after_id: int, size: int) -> list[int]:
    """The first ids of it after this one; when there are no more, those from its beginning."""
    ahead = coverage.subtract(Coverage.of((1, max(1, after_id + 1))))
    ids = (i for part in (ahead, coverage.subtract(ahead)) for start, stop in part for i in range(start, stop))
    return list(islice(ids, size))


def _pick(coverage: Coverage, size: int, rng: Random) -> list[int]:
    """Places in the row of all known ids, without writing that row down."""
    places = sorted(rng.sample(range(coverage.count), min(size, coverage.count)))
    ids: list[int] = []
    before = at = 0
    for start, stop in coverage:
        while at < len(places) and places[at] < before + stop - start:
            ids.append(start + places[at] - before)
            at += 1
        before += stop - start
    return ids
