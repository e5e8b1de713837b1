"""The empty ids that an audit reads again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.ledger import STRIDE, Coverage, next_ids, stride

pytestmark = pytest.mark.unit

SPANS = st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 400)), max_size=8)


@given(SPANS, st.integers(1, 60), st.integers(0, 3500))
def test_every_empty_id_has_its_turn(spans: list[tuple[int, int]], size: int, reached: int) -> None:
    """However the ids lie and wherever it begins: after one round, and then again."""
    empty = Coverage.of_spans(*((start, start + length) for start, length in spans))
    rounds = -(-empty.count // size) + 1
    seen: list[int] = []
    for _ in range(rounds):
        ids = next_ids(empty, reached, size)
        assert len(ids) == len(set(ids)) == min(size, empty.count)
        seen += ids
        reached = ids[-1] if ids else reached
    assert set(seen) == {number for start, stop in empty for number in range(start, stop)}


def test_a_small_channel_is_one_stride_and_a_large_one_is_gone_through() -> None:
    small = Coverage.of_spans((5, 400), (500, STRIDE))
    assert stride(small, STRIDE, 300) == small
    assert stride(Coverage(), 0, 0) == Coverage()
    large = Coverage.of_spans((1, 3 * STRIDE))
    reached, seen = 2 * STRIDE, Coverage()
    for _ in range(4):
        part = stride(large, 3 * STRIDE, reached)
        assert part.count <= STRIDE
        seen = seen.union(part)
        reached = part.ranges[-1][1] - 1
    assert seen == large


def test_what_is_above_the_newest_id_is_not_gone_through() -> None:
    assert stride(Coverage.of_spans((1, 50)), 30, 0) == Coverage.of_spans((1, 31))
