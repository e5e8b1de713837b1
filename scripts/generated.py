"""Writes files that are made from code; tests compare what lies there with what would be written."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def write_files(contents: Mapping[str, str], root: Path = ROOT) -> None:
    """Each at its path from the root of the repository; the paths are printed."""
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        sys.stdout.write(f"{name}\n")
