"""The strip of what is known: everything has its place, and no hole is too small to see."""

from __future__ import annotations

import re

import pytest

from telegram_assistant.domain.ledger import Coverage, LedgerState
from telegram_assistant.http.web.charts import NARROWEST, STRIP_WIDTH, coverage_strip

pytestmark = pytest.mark.unit

RECT = re.compile(r'<rect class="(\w+)" x="([\d.]+)" y="0" width="([\d.]+)"')


def parts(state: LedgerState) -> list[tuple[str, float, float]]:
    found = RECT.findall(coverage_strip(state, label="<b>"))
    return [(kind, float(x), float(width)) for kind, x, width in found]


def test_each_part_lies_where_its_ids_are() -> None:
    state = LedgerState(100, 21, Coverage.of_spans((21, 41), (51, 101)), 30)
    assert parts(state) == [
        ("never", 0.0, STRIP_WIDTH),
        ("known", 200.0, 200.0),
        ("known", 500.0, 500.0),
        ("unknown", 400.0, 100.0),
    ]
    assert 'aria-label="&lt;b&gt;"' in coverage_strip(state, label="<b>")


@pytest.mark.parametrize("missing", [1, 500_000, 1_000_000])
def test_one_id_among_a_million_is_seen(missing: int) -> None:
    whole = 1_000_000
    state = LedgerState(whole, 1, Coverage.of_spans((1, missing), (missing + 1, whole + 1)), 0)
    ((_, x, width),) = [part for part in parts(state) if part[0] == "unknown"]
    assert width == NARROWEST
    assert 0 <= x <= STRIP_WIDTH - NARROWEST


def test_what_is_covered_beyond_the_newest_id_stays_in_the_picture() -> None:
    for _, x, width in parts(LedgerState(10, 5, Coverage.of_spans((0, 50)), 3)):
        assert x + width <= STRIP_WIDTH


def test_a_channel_without_messages_has_no_strip() -> None:
    assert coverage_strip(LedgerState(0, 1, Coverage(), 0), label="x") == ""
