"""A disk that takes no more bytes for a while: it is told, nothing waits for ever, and writing goes on afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).with_name("on_a_full_disk.py")


def test_indexes_go_on_after_a_full_disk(tmp_path: Path) -> None:
    """Ladybug waits for ever in the second commit after one that failed, and a close then ends the process."""
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    refusals = ["refused: Retry", "refused: Retry", "refused: OSError"] * 3
    assert run.stdout.split("\n") == [*refusals, "read: before before", "read: after after", ""]
