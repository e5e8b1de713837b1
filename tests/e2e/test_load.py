"""`make load`, very small: nothing is lost, and what it saw is written down."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
SMALL = "--channels 10 --rate 8 --minutes 0.1 --quiet 0.5 --every 0.5 --models off --changed 0.2 --patience 1"


def test_a_small_load_loses_nothing_and_is_drawn(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", *SMALL.split(), "--results", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "load.md").read_text(encoding="utf-8")
    for line in ("| posted by the load | 48 |", "| missing | 0 |", "| doubled | 0 |", "| stored and not indexed | 0 |"):
        assert line in page
    drawn = re.findall(r'<polyline points="([^"]+)"', (tmp_path / "load-off.svg").read_text())
    assert len(drawn) > 10
    figure = json.loads((tmp_path / "load_off_missing.json").read_text())
    assert (figure["value"], figure["limit"] > 40) == (0, True)
    assert (tmp_path / "load-off.csv.gz").stat().st_size > 0
