"""How a load run is told: its plan, its delays over time, its plot, and that nobody runs it by accident."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)  # bench is no installed package


def outcome() -> Any:
    """Twenty posts in ten seconds from 1,000 on, each saved after one second and indexed after two; five before."""
    from bench.load_outcome import Marks, Outcome  # noqa: PLC0415 - see above
    from bench.load_roles import Use  # noqa: PLC0415 - see above
    from bench.load_verdict import Verdict  # noqa: PLC0415 - see above
    from bench.load_watch import Sample  # noqa: PLC0415 - see above

    posted = {UUID(int=n): 1000 + n / 2 for n in range(-5, 20) if n >= 0}
    posted |= {UUID(int=100 + n): 900.0 + n for n in range(5)}
    samples = [
        Sample(
            at=1000.0 + 2 * n,
            phase="load",
            posted=4 * n,
            saved=4 * n,
            indexed=3 * n,
            outbox=0,
            dead=0,
            visited=1,
            lag={"posts.parsed tagging": n},
            waiting={"tagging": 0},
            use={"ingest": Use(100.0 + n, 0.5 * n), "Valkey": Use(5.0, 0.0)},
            valkey_data=1.0,
            load=1.0,
            busy=2.0 * n,
            restarts=0,
            warnings=0,
        )
        for n in range(8)
    ]
    verdict = Verdict(25, 25, 25, 25, 0, 0, 0, 0, 0, 0, 0, Counter())
    return Outcome(
        name="load-off",
        plan=plan("--channels 5 --rate 2 --minutes 0.1666"),
        models=False,
        marks=Marks(quiet=900.0, began=1000.0, posted=1010.0, calm=1014.0),
        samples=samples,
        published=posted,
        saved={post: at + (1.0 if at >= 1000 else 0.1) for post, at in posted.items()},
        found={post: at + (1.5 if at >= 1000 else 0.2) for post, at in posted.items()},
        indexed={post: at + (2.0 if at >= 1000 else 0.2) for post, at in posted.items()},
        searches=[(1001.0, 0.5)],
        searches_failed=0,
        lines=Counter(),
        restarts=0,
        behind=0.0,
        edited=0,
        deleted=0,
        verdict=verdict,
    )


def plan(arguments: str) -> Any:
    from bench.load import plan_of  # noqa: PLC0415 - see above

    return plan_of(arguments.split())[0]


def test_delays_are_those_of_the_load_or_of_the_quiet_before_it() -> None:
    run = outcome()
    assert (run.posts, run.rate) == (20, 2.0)
    assert run.delays(run.found).median == pytest.approx(1.5)
    assert run.delays(run.indexed).median == pytest.approx(2.0)
    assert run.delays(run.indexed, quiet=True).p95 == pytest.approx(0.2)
    assert run.indexed_rate == pytest.approx(1.6)  # those of the last two seconds came later


def test_every_post_is_in_one_window() -> None:
    windows = outcome().windows(3)
    assert len(windows) == 3
    assert sum(one.posted for one in windows) == sum(one.saved for one in windows) == 20
    assert windows[0].to_saved.median == pytest.approx(1.0)
    assert windows[-1].last.at == 1014.0


def test_cores_of_others_are_what_is_left() -> None:
    cores = outcome().cores()
    assert cores == {"ingest": 0.25, "Valkey": 0.0, "others on this machine": 0.75}


def test_the_page_says_what_is_wrong(tmp_path: Path) -> None:
    from bench.load_report import write  # noqa: PLC0415 - see above

    write([outcome()], tmp_path)
    page = (tmp_path / "load.md").read_text()
    assert "| missing | 0 |" in page
    assert "| after the last post nothing waited in | 4 s |" in page
    assert "| post to found by its words, p50 / p95, s | 1.5 / 1.5 |" in page
    assert "- posts.parsed tagging: 7" in page
    assert "nothing waits" in (tmp_path / "load-off.svg").read_text()


def test_a_soak_has_a_plan_of_its_own() -> None:
    assert (plan("--soak").rate, plan("--soak").seconds, plan("").rate, plan("").seconds) == (10, 3600, 100, 600)
    assert plan("--soak").changed > plan("").changed == 0.0
    assert plan("").name(models=True) == "load-on"
    assert plan("--soak").name(models=True) == "soak"


def test_plain_benchmarks_do_not_include_it() -> None:
    from bench.__main__ import benchmarks  # noqa: PLC0415 - see above

    assert not {name for name in benchmarks() if name.startswith("load")}
