"""The sample that an audit reads again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.audit import RECENT_IDS, sample_ids
from telegram_assistant.domain.ledger import Coverage

pytestmark = pytest.mark.unit

SPANS = st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 400)), max_size=8)


@given(SPANS, st.integers(0, 3500), st.integers(0, 100), st.integers())
def test_only_known_ids_each_once_and_never_more_than_asked(
    spans: list[tuple[int, int]], newest: int, size: int, seed: int
) -> None:
    coverage = Coverage.of(*((start, start + length) for start, length in spans))
    ids = sample_ids(coverage, newest, size, Random(seed))
    assert ids == sorted(set(ids))
    assert len(ids) <= size
    assert all(i in coverage and i <= newest for i in ids)


@given(SPANS, st.integers())
def test_a_small_channel_is_audited_whole(spans: list[tuple[int, int]], seed: int) -> None:
    coverage = Coverage.of(*((start, start + length) for start, length in spans))
    assert len(sample_ids(coverage, 4000, 5000, Random(seed))) == coverage.count


def test_recent_ids_are_read_more_densely() -> None:
    ids = sample_ids(Coverage.of((1, 100_001)), 100_000, 100, Random(1))
    assert len(ids) == 100
    assert sum(i > 100_000 - RECENT_IDS for i in ids) >= 50
