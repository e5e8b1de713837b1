"""`make faults`, very small: Telegram silent, engines stopped, down and emptied; each noticed, and nothing lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\S*) \| ([^|]+) \| ([^|]+) \|.*\| ([^|]+) \| (\d+, \d+, \d+) \|$", re.MULTILINE)


def test_quick_faults_are_noticed_and_nothing_is_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "faults", "--quick", "--channels", "12", "--lanes", "1", "--slack", "4"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = ROW.findall(done.stdout)
    assert len(rows) >= 4
    assert {row[4] for row in rows} == {"0, 0, 0"}
