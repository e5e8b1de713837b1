"""Which empty ids an audit reads again, beside a sample of stored posts.

What is lost hides among the ids that a page once proved empty. So those are gone through from end to end, and then
again.
"""

from __future__ import annotations

from itertools import islice

from telegram_assistant.domain.ledger import Coverage

STRIDE = 20_000  # ids at most that are gone through at once


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
