"""The ledger of G1: ranges against plain sets, states against their definition, pages against a made-up history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.ledger import Coverage, LedgerState, page_proves, run_proves

pytestmark = pytest.mark.unit

spans = st.builds(lambda start, length: (start, start + length), st.integers(-5, 60), st.integers(0, 12))
span_lists = st.lists(spans, max_size=8)


def ids_in(span_list: list[tuple[int, int]]) -> set[int]:
    return {number for start, stop in span_list for number in range(start, stop)}


def model(coverage: Coverage) -> set[int]:
    return ids_in(list(coverage))


@given(span_lists)
def test_of_equals_the_set_of_its_ids_and_is_in_normal_form(spans_given: list[tuple[int, int]]) -> None:
    coverage = Coverage.of_spans(*spans_given)
    expected = ids_in(spans_given)
    assert model(coverage) == expected
    assert coverage.count == len(expected)
    assert coverage.is_empty == (not expected)
    assert all(start < stop for start, stop in coverage)
    stops, starts = [stop for _, stop in coverage][:-1], [start for start, _ in coverage][1:]
    assert all(stop < start for stop, start in zip(stops, starts, strict=True))
    assert Coverage.of_ids(expected) == coverage


@given(span_lists, span_lists)
def test_operations_equal_those_of_sets(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a, b = Coverage.of_spans(*left), Coverage.of_spans(*right)
    assert model(a.union(b)) == ids_in(left) | ids_in(right)
    assert model(a.intersection(b)) == ids_in(left) & ids_in(right)
    assert model(a.subtract(b)) == ids_in(left) - ids_in(right)
    assert a.union(b) == b.union(a)
    assert a.subtract(b).union(a.intersection(b)) == a


@given(span_lists, spans)
def test_add_and_gaps_equal_sets(given_spans: list[tuple[int, int]], span: tuple[int, int]) -> None:
    coverage, known, asked = Coverage.of_spans(*given_spans), ids_in(given_spans), set(range(*span))
    assert model(coverage.add(*span)) == known | asked
    assert coverage.add(*span) == coverage.union(Coverage.of_spans(span))
    assert model(coverage.gaps(*span)) == asked - known
    assert coverage.covers(*span) == (asked <= known)


@given(span_lists)
def test_contains_equals_sets(given_spans: list[tuple[int, int]]) -> None:
    coverage, known = Coverage.of_spans(*given_spans), ids_in(given_spans)
    assert [number for number in range(-6, 75) if number in coverage] == sorted(known)


@given(span_lists)
def test_postgresql_text_form_comes_back(given_spans: list[tuple[int, int]]) -> None:
    coverage = Coverage.of_spans(*given_spans)
    assert Coverage.parse(str(coverage)) == coverage


@pytest.mark.parametrize(
    "text,expected",
    [
        ("{}", Coverage()),
        (" { } ", Coverage()),
        ("{empty}", Coverage()),
        ("{[1,5),[7,9)}", Coverage(((1, 5), (7, 9)))),
        ("{[7,9), [1,5)}", Coverage(((1, 5), (7, 9)))),
        ("{[1,4],(6,8]}", Coverage(((1, 5), (7, 9)))),
        ("{[1,5),[5,9)}", Coverage(((1, 9),))),
        ("{[-3,9223372036854775806)}", Coverage(((-3, 9223372036854775806),))),
    ],
)
def test_reads_what_postgresql_reads(text: str, expected: Coverage) -> None:
    assert Coverage.parse(text) == expected


def test_prints_what_postgresql_prints() -> None:
    assert str(Coverage()) == "{}"
    assert str(Coverage.of_spans((7, 9), (1, 5))) == "{[1,5),[7,9)}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1,5)",
        "{[1,5)",
        "{[1,5)x",
        "x[1,5)}",
        "{[1,5),}",
        "{,[1,5)}",
        "{[1,5)[7,9)}",
        "{[1,)}",
        "{(,5)}",
        "{[5,1)}",
        "{[a,b)}",
        "{1,5}",
    ],
)
def test_refuses_what_is_not_a_bounded_multirange(text: str) -> None:
    with pytest.raises(ValueError, match=r"multirange|ends before"):
        Coverage.parse(text)


@pytest.mark.parametrize("ranges", [((5, 5),), ((5, 3),), ((1, 5), (5, 9)), ((7, 9), (1, 5)), ((1, 9), (3, 4))])
def test_ranges_out_of_normal_form_are_refused(ranges: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="normal form"):
        Coverage(ranges)


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    for make in (Coverage().add, Coverage().gaps, lambda start, stop: Coverage.of_spans((start, stop))):
        with pytest.raises(ValueError, match="ends before"):
            make(5, 3)


# ---- the state of a channel


@given(st.integers(0, 40), st.integers(1, 45), span_lists, st.data())
def test_g1_every_id_is_in_exactly_one_state(
    newest: int, requested_from: int, given_spans: list[tuple[int, int]], data: st.DataObject
) -> None:
    known = ids_in(given_spans) & set(range(1, newest + 1))
    captured = data.draw(st.integers(0, len(known)))
    state = LedgerState(newest, requested_from, Coverage.of_spans(*given_spans), captured)
    requested = set(range(requested_from, newest + 1))

    assert state.captured + state.empty + state.unknown + state.not_requested == newest
    assert model(state.gaps) == requested - known
    assert state.unknown == len(requested - known)
    assert state.not_requested == newest - len(known | requested)
    proven = [n for n in range(newest + 1) if not (requested - known) & set(range(1, n + 1))]
    assert state.proven_up_to == max(proven)
    assert (state.percent == 100) == (state.unknown == 0)
    assert 0 <= state.percent <= 100


def test_first_visit_leaves_older_ids_not_requested() -> None:
    state = LedgerState(newest_id=1000, requested_from=901, coverage=Coverage.of_spans((901, 1001)), captured=60)
    assert (state.captured, state.empty, state.unknown, state.not_requested) == (60, 40, 0, 900)
    assert (state.proven_up_to, state.percent) == (1000, 100.0)


def test_a_hole_is_unknown_and_ends_the_proof() -> None:
    state = LedgerState(newest_id=10, requested_from=1, coverage=Coverage.of_spans((1, 4), (6, 11)), captured=8)
    assert (state.unknown, state.proven_up_to, state.percent) == (2, 3, 80.0)
    assert state.gaps == Coverage.of_spans((4, 6))


def test_nothing_proven_at_all() -> None:
    state = LedgerState(newest_id=10, requested_from=4, coverage=Coverage(), captured=0)
    assert (state.proven_up_to, state.unknown, state.not_requested, state.percent) == (3, 7, 3, 0.0)


def test_a_single_unknown_of_a_million_is_not_rounded_away() -> None:
    state = LedgerState(1_000_000, 1, Coverage.of_spans((1, 1_000_000)), captured=0)
    assert state.unknown == 1
    assert state.percent == 99.99


@given(st.integers(0, 40), st.integers(0, 45), span_lists, st.data())
def test_n22_what_is_hidden_is_neither_empty_nor_unknown(
    newest: int, hidden: int, given_spans: list[tuple[int, int]], data: st.DataObject
) -> None:
    """What is asked for begins above it; a post of it that another account once read stays captured."""
    requested_from = data.draw(st.integers(hidden + 1, 50))
    known = ids_in(given_spans) & set(range(1, newest + 1))
    captured = data.draw(st.integers(0, len(known)))
    state = LedgerState(newest, requested_from, Coverage.of_spans(*given_spans), captured, hidden)
    assert state.hidden == len(set(range(1, min(hidden, newest) + 1)) - known)
    assert state.captured + state.empty + state.unknown + state.hidden + state.not_requested == newest
    assert state.not_requested >= 0


def test_a_channel_without_messages_is_whole() -> None:
    state = LedgerState(newest_id=0, requested_from=1, coverage=Coverage(), captured=0)
    assert (state.unknown, state.not_requested, state.proven_up_to, state.percent) == (0, 0, 0, 100.0)


def test_coverage_below_the_request_counts_as_known() -> None:
    state = LedgerState(newest_id=20, requested_from=11, coverage=Coverage.of_spans((8, 21)), captured=13)
    assert (state.captured, state.empty, state.unknown, state.not_requested) == (13, 0, 0, 7)


def test_n15_a_post_that_nothing_proves_makes_no_other_id_less_than_empty() -> None:
    """Another producer told of it; the pages that show the ledger must not fail because of it."""
    state = LedgerState(newest_id=10, requested_from=1, coverage=Coverage.of_spans((1, 3)), captured=3)
    assert (state.captured, state.empty, state.unknown) == (3, 0, 8)


@pytest.mark.parametrize("newest,requested,captured", [(-1, 1, 0), (5, 0, 0), (5, 1, -1)])
def test_impossible_states_are_refused(newest: int, requested: int, captured: int) -> None:
    with pytest.raises(ValueError, match="begin at 1"):
        LedgerState(newest, requested, Coverage.of_spans((1, 6)), captured)


# ---- what a page proves


@pytest.mark.parametrize(
    "after,ids,reached_end,newest,expected",
    [
        pytest.param(10, [12, 15, 19], False, 50, (11, 20), id="full page: between its ends, and from after_id"),
        pytest.param(10, [11, 12, 13], False, 50, (11, 14), id="full page: nothing beyond its last id"),
        pytest.param(10, [11, 12, 13], True, 50, (11, 51), id="full page that is the end: the newest were deleted"),
        pytest.param(10, [12], False, 50, (12, 13), id="room left before the end: something was left out"),
        pytest.param(10, [12], True, 50, (11, 51), id="the end: up to the newest known"),
        pytest.param(10, [60], True, 50, (11, 61), id="the end: a post newer than the newest known"),
        pytest.param(10, [], False, 50, (11, 51), id="empty: all of it is empty"),
        pytest.param(10, [], True, 10, (11, 11), id="empty, and nothing is newer"),
        pytest.param(10, [], True, 3, (11, 11), id="empty, and the newest known is behind us"),
        pytest.param(0, [1], False, 1, (1, 2), id="from the very first id"),
        pytest.param(0, [], True, 0, (1, 1), id="a channel without messages"),
        pytest.param(10, [15, 12, 13], False, 50, (11, 16), id="order within the page does not matter"),
    ],
)
def test_g1_what_a_page_proves(
    after: int, ids: list[int], *, reached_end: bool, newest: int, expected: tuple[int, int]
) -> None:
    proven = page_proves(after, ids, limit=3, reached_end=reached_end, newest_id=newest)
    assert proven == Coverage.of_spans(expected)


@pytest.mark.parametrize(
    "after,ids,limit", [(10, [10], 3), (10, [4, 12], 3), (10, [11, 12], 1), (10, [], 0), (-1, [], 3)]
)
def test_an_answer_to_another_request_proves_nothing(after: int, ids: list[int], limit: int) -> None:
    with pytest.raises(ValueError, match=r"page"):
        page_proves(after, ids, limit=limit, reached_end=True, newest_id=50)


@given(st.data())
def test_g1_reading_a_history_to_its_end_proves_every_id_and_none_falsely(data: st.DataObject) -> None:
    """A channel that goes on posting while it is read, by a server that leaves out of its pages what it likes.

    What the pages leave unknown is read by ids, as a backfill does it.
    """
    newest = data.draw(st.integers(0, 30))
    existing = data.draw(st.sets(st.integers(1, newest), max_size=30)) if newest else set()
    coverage, captured, after = Coverage(), set[int](), 0
    for _ in range(100):
        known_newest = newest  # before the page is asked for
        limit = data.draw(st.integers(1, 8))
        full = sorted(number for number in existing if number > after)[:limit]
        lost = data.draw(st.sets(st.sampled_from(full), max_size=len(full) - 1)) if full else set()
        page = [number for number in full if number not in lost]
        # A sign of the end comes with a whole page only: with less nobody can tell.
        reached_end = not lost and full == sorted(n for n in existing if n > after) and data.draw(st.booleans())
        # Posts that arrive while the answer is under way.
        arriving = data.draw(st.integers(0, 2)) if data.draw(st.booleans()) and newest < 60 else 0
        existing |= set(range(newest + 1, newest + arriving + 1))
        newest += arriving

        coverage = coverage.union(
            page_proves(after, page, limit=limit, reached_end=reached_end, newest_id=known_newest)
        )
        captured |= set(page)
        after = max(page, default=after)
        assert {number for number in existing if number in coverage} == captured
        if not page and not arriving:
            break
    holes = coverage.gaps(1, after + 1)
    captured |= {number for number in existing if number in holes}
    coverage = coverage.union(holes)
    assert captured == existing
    state = LedgerState(newest, 1, coverage, len(captured))
    assert (state.unknown, state.proven_up_to, state.empty) == (0, newest, newest - len(existing))


@pytest.mark.parametrize(
    "ids,limit,expected",
    [
        pytest.param([12, 15, 20], 3, Coverage.of_spans((12, 21)), id="as many as asked for: no hole between them"),
        pytest.param([15], 1, Coverage.of_spans((15, 21)), id="nothing between it and the top"),
        pytest.param([12, 15], 3, Coverage.of_ids([12, 15]), id="fewer: what it shows and no more"),
        pytest.param([], 3, Coverage(), id="nothing: no proof by itself"),
    ],
)
def test_g1_what_a_run_counted_from_above_proves(ids: list[int], limit: int, expected: Coverage) -> None:
    assert run_proves(20, ids, limit=limit) == expected


@pytest.mark.parametrize("ids", [[21], [1, 2, 3]])
def test_a_run_that_was_not_asked_for_proves_nothing(ids: list[int]) -> None:
    with pytest.raises(ValueError, match="newest messages"):
        run_proves(20, ids, limit=2)
