"""Which ids an audit reads again: a sample of everything that is said to be known, the recent ones more densely."""

from __future__ import annotations

from random import Random

from telegram_assistant.domain.ledger import Coverage

RECENT_IDS = 1000


def sample_ids(coverage: Coverage, newest_id: int, size: int, rng: Random) -> list[int]:
    """At most `size` different known ids, half of them among the newest thousand; ascending."""
    known = coverage.intersection(Coverage.of((1, newest_id + 1)))
    recent = known.intersection(Coverage.of((max(1, newest_id - RECENT_IDS + 1), newest_id + 1)))
    chosen = _pick(recent, size // 2, rng)
    others = known.subtract(Coverage.of_ids(chosen))
    return sorted([*chosen, *_pick(others, size - len(chosen), rng)])


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
