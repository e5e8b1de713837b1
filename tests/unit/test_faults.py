"""The catalogue of faults: enough of them, and one for every mark that asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)  # faults is no installed package


def test_there_are_many_faults_and_each_has_a_name_of_its_own() -> None:
    from faults.catalogue import ALL  # noqa: PLC0415 - see above

    names = [fault.name for fault in ALL]
    assert len(names) >= 45
    assert len(set(names)) == len(names)


def test_a_fault_is_good_only_if_it_was_noticed_in_time_and_left_nothing_behind() -> None:
    from faults.catalogue import ALL  # noqa: PLC0415 - see above
    from faults.state import Losses  # noqa: PLC0415 - see above
    from faults.trial import Outcome, Scope  # noqa: PLC0415 - see above

    fault = next(one for one in ALL if one.scope is Scope.SYSTEM)
    none = Losses(0, 0, 0)
    assert Outcome(fault, noticed=100.0, recovered=3.0, losses=none).good
    assert not Outcome(fault, noticed=121.0, recovered=3.0, losses=none).good
    assert not Outcome(fault, noticed=None, recovered=3.0, losses=none).good
    assert not Outcome(fault, noticed=100.0, recovered=None, losses=none).good
    assert not Outcome(fault, noticed=100.0, recovered=3.0, losses=Losses(0, 0, 1)).good


def test_the_page_tells_what_is_red() -> None:
    from faults.catalogue import ALL  # noqa: PLC0415 - see above
    from faults.report import page  # noqa: PLC0415 - see above

    line = {"mark": "", "scope": "system", "noticed": 3.0, "said": "a | b", "recovered": 130.0, "losses": "0, 0, 0"}
    line |= {"day": "2026-11-16", "commit": "abc", "good": True, "why": "", "load": 2.0}
    first, second = ALL[0].name, ALL[1].name
    red = line | {"good": False, "noticed": None, "why": "not noticed"}
    shown = page({"60": {first: line | {"name": first}, second: red | {"name": second}}})
    assert "**2 faults, 1 as they must be, 1 red**" in shown
    assert f"|  | {first} | 3 s | a \\| b | 2.2 min | 0, 0, 0 |" in shown
    assert f"{second} **(red: not noticed)** | **not noticed**" in shown
