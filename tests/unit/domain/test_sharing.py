"""Accounts among processes: fair, settled, none left over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.accounts import share

ACCOUNTS = st.integers(0, 12)
PROCESSES = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True)


def settle(holders: dict[str, str | None], processes: list[str], rounds: int = 30) -> list[int]:
    """Let all take turns until nothing moves; how many accounts moved in each round."""
    moved = []
    for _ in range(rounds):
        changed = 0
        for me in processes:
            plan = share(holders, processes, me)
            holders.update(dict.fromkeys(plan.take, me))
            holders.update(dict.fromkeys(plan.give, None))
            changed += len(plan.take) + len(plan.give)
        moved.append(changed)
        if not changed:
            break
    return moved


@given(ACCOUNTS, PROCESSES, st.data())
def test_whatever_it_was_before_all_are_held_fairly_and_nothing_moves_any_more(
    accounts: int, processes: list[str], data: st.DataObject
) -> None:
    holder = st.sampled_from([None, "gone", *processes])
    holders = {f"account {number}": data.draw(holder) for number in range(accounts)}
    assert settle(holders, processes)[-1] == 0
    counts = [list(holders.values()).count(process) for process in processes]
    assert sum(counts) == accounts, "none is left over"
    assert max(counts) - min(counts) <= 1


def test_an_only_process_takes_all() -> None:
    assert share({"1": None, "2": None}, [], "a").take == ("1", "2")


def test_who_comes_second_gets_its_share_and_the_first_keeps_the_rest() -> None:
    plan = share({"1": "a", "2": "a", "3": "a"}, ["a", "b"], "a")
    assert (plan.keep, plan.give) == (("1", "2"), ("3",))
    assert share({"1": "a", "2": "a", "3": None}, ["a", "b"], "b").take == ("3",)


def test_with_fewer_accounts_than_processes_one_stands_by_and_nothing_moves() -> None:
    assert share({"1": "a"}, ["a", "b"], "b").take == ()
    assert share({"1": "a"}, ["a", "b"], "a").give == ()


def test_one_that_died_is_followed_at_once() -> None:
    assert share({"1": "a", "2": "dead", "3": "dead"}, ["a"], "a").take == ("2", "3")
