"""The benchmark runner: what it writes, and what it says to a name it does not know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


def test_a_figure_is_written_with_its_limit_and_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from bench.figure import Figure  # noqa: PLC0415 - bench is no installed package

    path = Figure("reading_speed", 50.0, "posts/s", 200.0).save(tmp_path)
    assert path.name == "reading_speed.json"
    row = json.loads(path.read_text())
    assert row.pop("machine").count("Python")
    assert row == {"name": "reading_speed", "value": 50.0, "unit": "posts/s", "limit": 200.0, "ratio": 0.25}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no benchmark 'nonsense'; there are: " in done.stderr
    assert "simulator" in done.stderr
